"""Runs test files of a PyTorch checkout with one allocator, however its tests end their process."""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
import signal
import subprocess
import sys
import time

from tests.bench import harness

PATIENCE = 120.0  # seconds that one test may take; a bound, not a pace
PLUGIN = "tests.pytorch.reporter"


@dataclasses.dataclass(frozen=True)
class Outcome:
    """How one test ended: ``passed``, ``failed``, ``skipped``, ``killed`` (with its process) or ``hangs``."""

    word: str
    why: str = ""


@dataclasses.dataclass(frozen=True)
class Contender:
    """Whose allocator the tests meet.

    Attributes:
        name: for tables.
        joined: under ``hocket run``.
        variables: of the environment.
    """

    name: str
    joined: bool
    variables: dict[str, str] = dataclasses.field(default_factory=dict)


NATIVE = Contender("PyTorch's", joined=False)
OURS = Contender("Hocket's", joined=True)
NATIVE_OVER_CHUNKS = Contender("PyTorch's over Hocket's chunks", joined=True, variables={"HOCKET_ALLOCATOR": "native"})


@dataclasses.dataclass(frozen=True)
class Place:
    """Where they run.

    Attributes:
        tests: the ``test`` folder of the checkout.
        scratch: an empty folder, for reports, logs and the coordinator.
        memory, devices, timing: of the emulated GPU.
    """

    tests: pathlib.Path
    scratch: pathlib.Path
    memory: str = "2GiB"
    devices: int = 2
    timing: bool = False


class Run:
    """One contender and one file of tests, or a test (``test_cuda.py::TestCuda::test_streams``)."""

    def __init__(self, place: Place, contender: Contender, file: str, select: str = "") -> None:
        self.outcomes: dict[str, Outcome] = {}
        self._place, self._contender, self._file, self._select = place, contender, file, select
        self._process: subprocess.Popen[bytes]
        stem = f"{contender.name.replace(' ', '-')}-{pathlib.Path(file.split('::')[0]).stem}"
        self._report, self._log = place.scratch / f"{stem}.report", place.scratch / f"{stem}.log"

    def run(self) -> dict[str, Outcome]:
        """Runs all tests of the file; a process that dies is followed by another for those that are left."""
        left = None
        while left is None or left:
            left = self._some(left)
        return self.outcomes

    def _some(self, names: list[str] | None) -> list[str]:
        """Runs these (None: all) in one process, to its end or to a test that never ends; returns those not begun."""
        self._report.unlink(missing_ok=True)
        status = self._wait(names)
        said = [json.loads(line) for line in self._report.read_text().splitlines()] if self._report.exists() else []
        collected = next((each["collected"] for each in said if "collected" in each), None)
        if collected is None:
            raise RuntimeError(f"{self._file} cannot be collected:\n{self._log.read_text(errors='replace')[-3000:]}")
        for each in said:
            if "end" in each:
                self.outcomes[each["end"]] = Outcome(each["outcome"], each["why"].strip().split("\n")[0][:300])
        begun = next((each["begin"] for each in reversed(said) if "begin" in each), None)
        if begun is not None and begun not in self.outcomes:
            self.outcomes[begun] = self._without_end(status)
        left = [name for name in (names or collected) if name not in self.outcomes]
        return [] if begun is None else left

    def _without_end(self, status: int | None) -> Outcome:
        last = self._log.read_text(errors="replace").strip().splitlines()[-3:]
        if status is None:
            return Outcome("hangs", f"no end within {PATIENCE:g} s; {' / '.join(last)}"[:300])
        return Outcome("killed", f"status {status}; {' / '.join(last)}"[:300])

    def _wait(self, names: list[str] | None) -> int | None:
        """Runs a process to its end; None where a test did not end and it was killed."""
        with open(self._log, "wb") as log:
            self._process = subprocess.Popen(
                self._command(names), env=self._environment(), cwd=self._place.tests, stdout=log,
                stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip
        size, since = -1, time.monotonic()
        while True:
            try:
                return self._process.wait(1.0)
            except subprocess.TimeoutExpired:
                now = self._report.stat().st_size if self._report.exists() else 0
            if now != size:
                size, since = now, time.monotonic()
            elif time.monotonic() - since > PATIENCE:
                os.killpg(self._process.pid, signal.SIGKILL)
                self._process.wait()
                return None

    def _command(self, names: list[str] | None) -> list[str]:
        place, device = self._place, f"pytorch-tests-{os.getpid()}"
        emulate = [harness.hocket(), "emulate", "--name", device, "--memory", place.memory]
        emulate += ["--devices", str(place.devices), *(["--timing"] if place.timing else []), "--"]
        run = [harness.hocket(), "run", "--"] if self._contender.joined else []
        select = ["-k", self._select] if self._select else []
        options = ["-q", "-c", os.devnull, "--rootdir", str(place.tests), "--noconftest", "-W", "ignore"]
        options += ["-p", "no:cacheprovider", "-p", "no:xdist", "-p", PLUGIN]
        return [*emulate, *run, sys.executable, "-m", "pytest", *options, *select, *(names or [self._file])]

    def _environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("HOCKET_")}
        paths = [str(harness.ROOT), os.environ.get("PYTHONPATH", "")]
        return {
            **kept,
            **self._contender.variables,
            "HOCKET_RUNTIME_DIR": str(self._place.scratch / "run"),
            "PYTORCH_TESTS_REPORT": str(self._report),
            "PYTHONPATH": os.pathsep.join(path for path in paths if path),
            "OMP_NUM_THREADS": "1",
        }
