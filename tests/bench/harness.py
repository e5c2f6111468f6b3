"""What every benchmark shares: interleaved workers, ratios with their bounds, and the record on disk.

A benchmark starts its contenders as processes that stay alive and lets them run small blocks in turn (A B B A
...), so that drift of the machine hits all of them alike. A figure is the median over the blocks' ratios with
a 95 % bootstrap interval (B. Efron, 1979: resampling with replacement, percentile method).

Where it runs is said once, by ``scripts/bench`` (``use``): on this machine's GPU, or on an emulated one. A benchmark
puts its commands on the device with ``emulate``, which is nothing but the command itself on a GPU.
"""

from __future__ import annotations

import collections
import contextlib
import ctypes
import dataclasses
import datetime
import functools
import json
import os
import pathlib
import platform
import random
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeVar

from tests.bench import monitor, sizes, source

ROOT = pathlib.Path(__file__).resolve().parents[2]
RESULTS = ROOT / "docs" / "results"
EMULATED = "emulated"
T = TypeVar("T")
# Paths of what a running job meets of it, as git takes them.
COORDINATOR = ("coordinator", ":(exclude)coordinator/simulator")
# What runs in a job, or starts it.
PYTHON = (
    "python/_hocket_start.py", ":(glob)python/hocket/*.py", "python/hocket/emulator", "python/hocket/cli/run.py",
    "python/hocket/cli/emulate.py",
)  # fmt: skip


@dataclasses.dataclass
class Place:
    """Where benchmarks run and their records go."""

    emulated: bool = True
    quick: bool = False  # what is measured shows that it runs, and is no record
    brief: bool = False  # five repetitions in short blocks: a record, with wider bounds
    results: pathlib.Path = RESULTS
    workloads: pathlib.Path | None = None  # traces, which are not part of this tree


PLACE = Place()


def use(
    emulated: bool,
    results: pathlib.Path = RESULTS,
    workloads: pathlib.Path | None = None,
    quick: bool = False,
    brief: bool = False,
) -> None:
    """Says where all benchmarks of this process run."""
    PLACE.emulated, PLACE.results, PLACE.workloads = emulated, results, workloads
    PLACE.quick, PLACE.brief = quick, brief


def extent(quick: bool, *, usual: T, brief: T, least: T) -> T:
    """How much a benchmark does: ``least`` where it is ``quick``, ``brief`` where minutes are all that there is."""
    return least if quick else brief if PLACE.brief else usual


class NotRun(Exception):
    """A benchmark lacks what it needs, and says what that is: it has neither failed nor measured anything."""


def workload(name: str) -> pathlib.Path:
    """A file of the traces. NotRun says what is missing."""
    if PLACE.workloads is None:
        raise NotRun(f"no folder of traces was given; it needs {name} in one: --workloads FOLDER")
    if not (PLACE.workloads / name).is_file():
        raise NotRun(f"--workloads {PLACE.workloads}: there is no {name} in it")
    return PLACE.workloads / name


@dataclasses.dataclass
class Figure:
    """One number with its bound, its goal and what it is compared with.

    Attributes:
        name: stable key, e.g. ``step_time_values``.
        text: one line for the table.
        value, low, high: the median and its 95 % interval.
        goal: the largest value that meets the goal; with ``at_least`` the smallest.
        baseline: what 1.0 means.
        samples: the raw ratios, in the order in which they were measured.
    """

    name: str
    text: str
    value: float
    low: float
    high: float
    goal: float
    baseline: str
    samples: list[float]
    unit: str = "ratio"
    at_least: bool = False

    @property
    def met(self) -> str:
        return met(dataclasses.asdict(self))


def met(figure: Mapping[str, Any]) -> str:
    """Does a figure meet its goal? ``yes``, ``no``, or ``within the interval`` where the run does not decide it."""
    bounds = (figure["low"], figure["high"])
    sides = {bound >= figure["goal"] if figure.get("at_least") else bound <= figure["goal"] for bound in bounds}
    return "within the interval" if len(sides) == 2 else "yes" if sides == {True} else "no"


def interval(samples: Sequence[float], resamples: int = 4000) -> tuple[float, float, float]:
    """Returns (median, low, high): the median and its 95 % bootstrap interval."""
    draw = random.Random(12345)
    n = len(samples)
    medians = sorted(statistics.median(draw.choices(samples, k=n)) for _ in range(resamples))
    return statistics.median(samples), medians[int(0.025 * resamples)], medians[int(0.975 * resamples)]


def figure(
    name: str,
    text: str,
    samples: Sequence[float],
    goal: float,
    baseline: str,
    unit: str = "ratio",
    at_least: bool = False,
) -> Figure:
    """A Figure from raw samples; at least five of them, or two of a quick run."""
    fewest = 2 if PLACE.quick else 5
    if len(samples) < fewest:
        raise ValueError(f"{name}: {len(samples)} samples; a figure needs at least {fewest}")
    value, low, high = interval(samples)
    return Figure(name, text, value, low, high, goal, baseline, list(samples), unit, at_least)


def not_measured(name: str, text: str, baseline: str, why: str) -> dict[str, str]:
    """A figure that could not be had here, for the record's ``not_measured``: a row that counts for nothing."""
    return {"name": name, "text": text, "baseline": baseline, "why": why}


class Worker:
    """A process that runs blocks on demand.

    It is sent one line of JSON a block on its standard input and answers with one line of JSON. Its standard
    error goes to ``log``.
    """

    def __init__(self, command: Sequence[str], environment: dict[str, str], log: pathlib.Path) -> None:
        self._log = log
        self._errors = open(log, "w")  # noqa: SIM115  (the process writes to it)
        self._process = subprocess.Popen(
            list(command),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env={**os.environ, **environment},
            text=True,
            cwd=ROOT,
        )

    def begin(self, **request: Any) -> None:
        """Starts a block; ``end()`` waits for it."""
        assert self._process.stdin
        with contextlib.suppress(BrokenPipeError):  # end() says why
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()

    def end(self) -> dict[str, Any]:
        """The block's answer. Raises RuntimeError with the worker's last words if it died."""
        assert self._process.stdout
        line = self._process.stdout.readline()
        if not line:
            code = self._process.wait()
            raise RuntimeError(f"benchmark worker ended with status {code}:\n{self._log.read_text()[-3000:]}")
        return json.loads(line)

    def ask(self, **request: Any) -> dict[str, Any]:
        """Runs one block and returns its answer."""
        self.begin(**request)
        return self.end()

    def close(self) -> None:
        assert self._process.stdin
        self._process.stdin.close()
        self._process.wait()
        self._errors.close()

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self.close()


@contextlib.contextmanager
def runtime_folder() -> Iterator[str]:
    """A folder for a coordinator and for the logs of its jobs; both are gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="hk-") as folder:
        try:
            yield folder
        finally:  # it may still be writing of the jobs that have just ended
            environment = {**os.environ, "HOCKET_RUNTIME_DIR": folder}
            subprocess.run([hocket(), "stop", "--force"], env=environment, capture_output=True, check=False)


def hocket() -> str:
    """The ``hocket`` command of the interpreter that runs the benchmark."""
    beside = pathlib.Path(sys.executable).with_name("hocket")
    found = str(beside) if beside.exists() else shutil.which("hocket")
    if not found:
        raise RuntimeError("no hocket command beside this Python: run scripts/setup, then scripts/bench")
    return found


@functools.cache
def scheduling() -> str:
    """``real time`` where this process may schedule so, else ``usual``. Leaves this one as it is."""
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(10))
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
    except PermissionError:
        return "usual"
    return "real time"


def in_real_time(process: int | str = "self") -> None:
    """As ``undisturbed``, for all threads of a process: a worker calls it when it is ready to be measured."""
    with contextlib.suppress(PermissionError):
        for thread in os.listdir(f"/proc/{process}/task"):
            os.sched_setscheduler(int(thread), os.SCHED_FIFO, os.sched_param(10))


def coordinator_in_real_time(environment: Mapping[str, str]) -> None:
    """As ``in_real_time``: a coordinator that jobs have started."""
    command = [hocket(), "status", "--json"]
    said = subprocess.run(command, env={**os.environ, **environment}, check=True, capture_output=True, text=True)
    in_real_time(json.loads(said.stdout)["daemon"]["pid"])


def undisturbed(command: Sequence[str]) -> list[str]:
    """``command`` in real time where that is allowed: other work of the machine is not measured then.

    For programs that wait more than they compute, and not for long.
    """
    return [*(["chrt", "--fifo", "10"] if scheduling() == "real time" else []), *command]


@contextlib.contextmanager
def reasons(environment: dict[str, str]) -> Iterator[collections.Counter[str]]:
    """What the coordinator says of its jobs while the block runs: sentences (without their numbers) and how often.

    For a repetition that is not counted: it says why a figure is what it is.
    """
    found: collections.Counter[str] = collections.Counter()
    command = [hocket(), "status", "--watch", "--json", "--interval", "0.1"]
    watch = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env={**os.environ, **environment}
    )
    assert watch.stdout
    watch.stdout.readline()
    yield found
    watch.terminate()
    for line in watch.stdout:
        with contextlib.suppress(json.JSONDecodeError):  # the last may be cut
            for job in json.loads(line)["jobs"]:
                found[re.sub(r"[0-9.]+ ?([kMG]iB|ms|s|min)?\b", "N", f"{job['state']}: {job['why']}")] += 1
    watch.wait()


def emulate(name: str, memory: str, command: Sequence[str], *, timing: bool = False) -> list[str]:
    """``command`` on an emulated GPU called ``name``; where a real one is measured, the command as it is.

    HOCKET_EMULATOR_MEMORY makes a smaller card of it: sizes.py.
    """
    if not PLACE.emulated:
        return list(command)
    flags = ["--timing"] if timing else []
    return [hocket(), "emulate", "--name", name, "--memory", sizes.smaller(memory), *flags, "--", *command]


NOTHING_HELD = 1 << 50  # more bytes free than any device has


class Filled:
    """The device, filled by a program outside Hocket so that jobs have as much of it as they are to have.

    So two jobs that do not fit are two jobs of the size that the figure is about, however large the device. Who uses
    it starts its jobs first: their contexts take memory, too.

    Attributes:
        total: bytes of the device.
    """

    EMULATED_MEMORY = "24GiB"

    def __init__(self, name: str, folder: str) -> None:
        command = emulate(name, self.EMULATED_MEMORY, [sys.executable, "-m", "tests.bench.ballast"], timing=True)
        self._worker = Worker(command, {}, pathlib.Path(folder) / "ballast.log")
        self.total = self.leave(NOTHING_HELD)["total"]

    def leave(self, free: int) -> dict[str, int]:
        """Until so many bytes are free: what the driver says then."""
        return self._worker.ask(leave=free)

    def round_trip(self, size: int) -> float:
        """Seconds that plain copies of so many bytes take, to pinned memory of the host and then back."""
        return sum(self._worker.ask(copy=size).values())

    def __enter__(self) -> Filled:
        return self

    def __exit__(self, *_: object) -> None:
        self._worker.close()


def _cpu() -> str:
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()


def binary(target: str) -> str:
    """A C++ benchmark's program, built where it is not yet, in HOCKET_BUILD_DIR or the folder of scripts/setup."""
    folder = pathlib.Path(os.environ.get("HOCKET_BUILD_DIR") or ROOT / "build" / "dev")
    found = next((path for path in folder.rglob(target) if path.is_file() and os.access(path, os.X_OK)), None)
    if found is None or "HOCKET_BUILD_DIR" not in os.environ:
        for command in (["cmake", "-S", str(ROOT), "-B", str(folder), "-DHOCKET_BENCHMARKS=ON"],
                        ["cmake", "--build", str(folder), "--target", target]):  # fmt: skip
            made = subprocess.run(command, capture_output=True, text=True, check=False)
            if made.returncode:
                raise RuntimeError(f"{' '.join(command)} failed:\n{(made.stdout + made.stderr)[-3000:]}")
        found = next(path for path in folder.rglob(target) if path.is_file() and os.access(path, os.X_OK))
    return str(found)


def device_name() -> str:
    """``emulated``, or what the driver, and so torch, calls the GPU. Makes no context: other jobs are measured yet."""
    if PLACE.emulated:
        return EMULATED
    driver, device = monitor.device_0()
    name = ctypes.create_string_buffer(256)
    if answer := driver.cuDeviceGetName(name, len(name), device):
        raise RuntimeError(f"the driver does not say which device it has: error {answer}")
    return name.value.decode()


def _driver() -> str:
    if PLACE.emulated or not shutil.which("nvidia-smi"):
        return ""
    query = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    return subprocess.run(query, capture_output=True, text=True, check=False).stdout.strip()


def _without_folder(argument: str) -> str:
    """``argument``; of an absolute path its last part: where somebody keeps a thing says nothing to others."""
    return pathlib.Path(argument).name if argument.startswith("/") else argument


def _emulator_costs() -> dict[str, str]:
    """The file of rates and times that the emulated GPU has in place of its own, as ``origin`` says it, if any."""
    costs = os.environ.get("HOCKET_EMULATOR_COSTS")
    if not costs or not PLACE.emulated:
        return {}
    path = pathlib.Path(costs).resolve()
    return {"emulator_costs": str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else path.name}


def origin(command: str) -> dict[str, Any]:
    """Where a record that is written now comes from: commit, date, command, machine and its load, torch, Python; the
    emulated GPU's costs where they are not its own."""
    import torch

    return {
        "commit": source.commit(),
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "command": " ".join([command, *map(_without_folder, sys.argv[1:])]),
        "machine": f"{_cpu()}, {os.cpu_count()} cores, {platform.system()} {platform.release()}",
        "load": [round(load, 1) for load in os.getloadavg()],
        "torch": torch.__version__,
        "python": platform.python_version(),
        **_emulator_costs(),
    }


def checks_record(
    name: str, command: str, checks: Sequence[tuple[str, bool, str]], speaks_of: Sequence[str], **more: Any
) -> dict[str, Any]:
    """A record of what was tried and either held or did not, for a row each on the page of results.

    Args:
        name: stable key; the record belongs in ``<name>.json``.
        command: the program that tried; its arguments are added.
        checks: for each (what was tried, whether it held, what was seen).
        speaks_of: folders and files; where one of them changes afterwards, the page calls the record stale.
        more: further facts, as they are. ``device`` is emulated if they do not say otherwise.
    """
    rows = [{"text": text, "held": held, "seen": seen} for text, held, seen in checks]
    return {
        "checked": name,
        **origin(command),
        "device": EMULATED,
        "speaks_of": list(speaks_of),
        "checks": rows,
        **more,
    }


def record_name(name: str, device: str | None = None) -> str:
    """The file of a benchmark's record, of ``device`` (default: the one that is measured)."""
    device = device_name() if device is None else device
    suffix = "" if device == EMULATED else "-" + re.sub(r"[^a-z0-9]+", "-", device.lower()).strip("-")
    return f"{name}{suffix}.json"


def record(
    name: str, figures: Sequence[Figure], device: str = EMULATED, extra: dict[str, Any] | None = None
) -> pathlib.Path:
    """Writes ``<name>.json`` (on a GPU ``<name>-<its name>.json``) and returns its path.

    ``device`` is overruled where a GPU is measured. The load of the machine is part of the record: a figure taken
    beside other work says so.
    """
    PLACE.results.mkdir(parents=True, exist_ok=True)
    device = device if PLACE.emulated else device_name()
    path = PLACE.results / record_name(name, device)
    data = {
        "benchmark": name,
        **origin("scripts/bench"),
        "device": device,
        "driver": _driver(),
        "scheduling": scheduling(),
        "figures": [dataclasses.asdict(f) for f in figures],
        **(extra or {}),
    }
    path.write_text(json.dumps(data, indent=1) + "\n")
    for f in figures:
        _say(f"{f.text}: {f.value:.4f} [{f.low:.4f} .. {f.high:.4f}] {f.unit}, goal met: {f.met}")
    for each in data.get("not_measured", ()):
        _say(f"{each['text']}: not measured: {each['why']}")
    return path


@functools.cache
def _say(line: str) -> None:
    """Once, however often a benchmark that records as it goes comes to it."""
    print(line, flush=True)
