"""What every benchmark shares: interleaved workers, ratios with their bounds, and the record on disk.

A benchmark starts its contenders as processes that stay alive and lets them run small blocks in turn (A B B A
...), so that drift of the machine hits all of them alike. A figure is the median over the blocks' ratios with
a 95 % bootstrap interval (B. Efron, 1979: resampling with replacement, percentile method).
"""

from __future__ import annotations

import dataclasses
import datetime
import json
import os
import pathlib
import platform
import random
import shutil
import statistics
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parents[2]
RESULTS = ROOT / "docs" / "results"


@dataclasses.dataclass
class Figure:
    """One number with its bound, its goal and what it is compared with.

    Attributes:
        name: stable key, e.g. ``step_time_values``.
        text: one line for the table.
        value, low, high: the median and its 95 % interval.
        goal: the largest value that meets the goal.
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

    @property
    def met(self) -> bool:
        return self.value <= self.goal


def interval(samples: Sequence[float], resamples: int = 4000) -> tuple[float, float, float]:
    """Returns (median, low, high): the median and its 95 % bootstrap interval."""
    draw = random.Random(12345)
    n = len(samples)
    medians = sorted(statistics.median(draw.choices(samples, k=n)) for _ in range(resamples))
    return statistics.median(samples), medians[int(0.025 * resamples)], medians[int(0.975 * resamples)]


def figure(name: str, text: str, samples: Sequence[float], goal: float, baseline: str) -> Figure:
    """A Figure from raw ratios; at least five of them."""
    if len(samples) < 5:
        raise ValueError(f"{name}: {len(samples)} samples; a figure needs at least 5")
    value, low, high = interval(samples)
    return Figure(name, text, value, low, high, goal, baseline, list(samples))


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

    def ask(self, **request: Any) -> dict[str, Any]:
        """Runs one block and returns its answer. Raises RuntimeError with the worker's last words if it died."""
        assert self._process.stdin and self._process.stdout
        try:
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            code = self._process.wait()
            raise RuntimeError(f"benchmark worker ended with status {code}:\n{self._log.read_text()[-3000:]}")
        return json.loads(line)

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


def hocket() -> str:
    """The ``hocket`` command of the interpreter that runs the benchmark."""
    beside = pathlib.Path(sys.executable).with_name("hocket")
    found = str(beside) if beside.exists() else shutil.which("hocket")
    if not found:
        raise RuntimeError("no hocket command beside this Python: run scripts/setup, then scripts/bench")
    return found


def emulate(name: str, memory: str, command: Sequence[str], *, timing: bool = False) -> list[str]:
    """``command`` on an emulated GPU called ``name``."""
    flags = ["--timing"] if timing else []
    return [hocket(), "emulate", "--name", name, "--memory", memory, *flags, "--", *command]


def _commit() -> str:
    run = subprocess.run(["git", "-C", str(ROOT), "describe", "--always", "--dirty"], capture_output=True, text=True)
    return run.stdout.strip() or "unknown"


def _cpu() -> str:
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()


def record(name: str, figures: Sequence[Figure], device: str, extra: dict[str, Any] | None = None) -> pathlib.Path:
    """Writes ``docs/results/<name>.json`` and returns its path."""
    import torch

    RESULTS.mkdir(parents=True, exist_ok=True)
    path = RESULTS / f"{name}.json"
    data = {
        "benchmark": name,
        "commit": _commit(),
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "command": " ".join(["scripts/bench", *sys.argv[1:]]),
        "device": device,
        "machine": f"{_cpu()}, {os.cpu_count()} cores, {platform.system()} {platform.release()}",
        "torch": torch.__version__,
        "python": platform.python_version(),
        "figures": [{**dataclasses.asdict(f), "met": f.met} for f in figures],
        **(extra or {}),
    }
    path.write_text(json.dumps(data, indent=1) + "\n")
    return path
