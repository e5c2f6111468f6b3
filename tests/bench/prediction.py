"""What ``hocket simulate`` says of jobs that share a device, against the same jobs run there.

Each kind of job is run alone first: the time of its step and of its pause, and nothing else, goes into the simulator;
what a hand-over costs it is told from the record of ``hand_over``. Then mixes that it has not seen are run and
simulated, each under one policy.
"""

from __future__ import annotations

import contextlib
import csv
import dataclasses
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from typing import Any

from tests.bench import harness

CODE = ("allocator", "csrc", "coordinator", *harness.PYTHON)  # the simulator, too
MIB = 1 << 20
MEMORY = 8 << 30


@dataclasses.dataclass(frozen=True)
class Kind:
    """A training: device time of a step and the loading pause before it, milliseconds."""

    device_ms: float
    gap_ms: float


KINDS = {
    "busy": Kind(20, 0),
    "brisk": Kind(8, 0),
    "half": Kind(20, 20),
    "loading": Kind(10, 40),
    "long": Kind(60, 15),
}
# (policy, kinds): with few and many at once, with and without pauses.
MIXES = [
    ("fifo", ("busy", "half")),
    ("fair", ("busy", "brisk")),
    ("round-robin", ("busy", "brisk")),
    ("fair", ("half", "half")),
    ("fifo", ("loading", "loading", "loading")),
    ("fair", ("long", "loading")),
    ("round-robin", ("half", "long", "loading")),
    ("fair", ("busy", "half", "brisk")),
    ("fair", ("busy", "half", "loading", "long")),
    ("fifo", ("half", "half", "loading", "loading")),
]


@dataclasses.dataclass(frozen=True)
class Alone:
    """What a kind took alone, per step, milliseconds."""

    step_ms: float
    gap_ms: float


class Jobs:
    """Workers of a device, one for each place in a mix, so that each mix is run by jobs that are there already."""

    def __init__(self, stack: contextlib.ExitStack, folder: str) -> None:
        self._stack, self._folder = stack, folder
        self._workers: dict[tuple[str, int], harness.Worker] = {}
        self.environment = {"HOCKET_RUNTIME_DIR": folder}

    def of(self, kinds: Sequence[str]) -> list[harness.Worker]:
        """One for each, started where they are not there."""
        found = []
        for i, kind in enumerate(kinds):
            key = (kind, kinds[:i].count(kind))
            if key not in self._workers:
                self._workers[key] = self._start(*key)
            found.append(self._workers[key])
        return found

    def _start(self, kind: str, number: int) -> harness.Worker:
        name = f"{kind}-{number}"
        program = [sys.executable, "-m", "tests.bench.workload", "hocket", "--kind", "cnn", "--name", name]
        program += ["--device-ms", str(KINDS[kind].device_ms)]
        command = harness.emulate("bench-prediction", f"{MEMORY // MIB}MiB", program, timing=True)
        worker = harness.Worker(command, self.environment, pathlib.Path(self._folder) / f"{name}.log")
        worker.ask(steps=3)
        return self._stack.enter_context(worker)


def _alone(worker: harness.Worker, kind: Kind, steps: int) -> Alone:
    """The pause as it turned out (a sleep of 20 ms is longer), and the step as it is after one."""
    worker.ask(steps=steps)  # it becomes as quick as it will be
    both = worker.ask(steps=steps, gap_ms=kind.gap_ms)
    return Alone(*(1e3 * seconds / both["steps"] for seconds in (both["wall"] - both["paused"], both["paused"])))


def _steps(alone: Alone, seconds: float) -> int:
    return max(5, round(seconds * 1e3 / (alone.step_ms + alone.gap_ms)))


def _begin_anew(policy: str, environment: dict[str, str]) -> None:
    """As simulated jobs do, who have had nothing yet: what `fair` remembers of the run before goes with it."""
    for name in ("fifo" if policy != "fifo" else "fair", policy):
        command = [harness.hocket(), "policy", name]
        subprocess.run(command, env={**os.environ, **environment}, check=True, capture_output=True)


@dataclasses.dataclass(frozen=True)
class Outcome:
    """Of a mix, from the common beginning on."""

    makespan_s: float
    mean_end_s: float


def _run(workers: Sequence[harness.Worker], kinds: Sequence[str], steps: Sequence[int]) -> Outcome:
    begin = time.perf_counter()
    for worker, kind, many in zip(workers, kinds, steps, strict=True):
        worker.begin(steps=many, gap_ms=KINDS[kind].gap_ms)
    ends = [worker.end()["ended"] - begin for worker in workers]
    return Outcome(max(ends), statistics.mean(ends))


def _simulated(
    policy: str, kinds: Sequence[str], steps: Sequence[int], alone: dict[str, Alone], cost: float
) -> Outcome:
    """A worker's first pause comes before its first step, a simulated job's after it: it arrives so much later."""
    rows = [
        {
            "name": f"{i}",
            "arrival_s": alone[kind].gap_ms / 1e3,
            "steps": many,
            "step_ms": alone[kind].step_ms,
            "gap_ms": alone[kind].gap_ms,
        }
        for i, (kind, many) in enumerate(zip(kinds, steps, strict=True))
    ]
    with tempfile.NamedTemporaryFile("w", suffix=".csv", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        file.flush()
        command = [harness.hocket(), "simulate", file.name, "--policy", policy, "--hand-over-ms", str(cost), "--json"]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    report = json.loads(done.stdout)["policies"][policy]
    arrivals = statistics.mean(row["arrival_s"] for row in rows)
    return Outcome(report["makespan_s"], report["mean_jct_s"] + arrivals)


def _hand_over_ms() -> float:
    """Of this device, if it has been measured in this run or before; else that of the emulated one."""
    name = harness.record_name("hand_over")
    places = [harness.PLACE.results / name, harness.RESULTS / name, harness.RESULTS / "hand_over.json"]
    data = json.loads(next(path for path in places if path.exists()).read_text())
    return statistics.median(data["nanoseconds"]["hand_over_p50_ns"]) / 1e6


def run(quick: bool) -> None:
    two = MIXES[:2]
    chosen, seconds, repeats = harness.extent(quick, usual=(MIXES, 2.0, 5), brief=(two, 1.0, 5), least=(two, 0.3, 2))
    cost = _hand_over_ms()
    mixes: list[dict[str, Any]] = []
    with harness.runtime_folder() as folder, contextlib.ExitStack() as stack:
        jobs = Jobs(stack, folder)
        alone = {}
        for name, kind in KINDS.items():
            if not any(name in kinds for _, kinds in chosen):
                continue
            steps = _steps(Alone(kind.device_ms, kind.gap_ms), 2 * seconds)
            alone[name] = _alone(jobs.of([name])[0], kind, steps)
        for policy, kinds in chosen:
            workers = jobs.of(kinds)
            many = [_steps(alone[kind], seconds) for kind in kinds]
            measured = []
            for _ in range(repeats):
                _begin_anew(policy, jobs.environment)
                measured.append(_run(workers, kinds, many))
            mixes.append(_errors(policy, kinds, many, measured, _simulated(policy, kinds, many, alone, cost)))
    baseline = "the same jobs, run on the device"
    goal = 0.05 if harness.PLACE.emulated else 0.10
    figures = []
    for what, text in (("makespan", "makespan"), ("mean_end", "mean completion time")):
        name, errors = f"prediction_{what}", [mix[f"{what}_off"] for mix in mixes]
        text = f"simulated {text} of jobs together, off by:"
        worst = max(errors, key=statistics.median)
        every = [error for mix in errors for error in mix]
        figures += [
            harness.figure(f"{name}_worst", f"{text} the worst of {len(chosen)} mixes", worst, goal, baseline),
            harness.figure(name, f"{text} {len(chosen)} mixes", every, goal, baseline),
        ]
    seen = {name: dataclasses.asdict(one) for name, one in alone.items()}
    harness.record(
        "prediction", figures, extra={"alone": seen, "hand_over_ms": cost, "mixes": mixes, "speaks_of": CODE}
    )


def _errors(
    policy: str, kinds: Sequence[str], steps: list[int], measured: list[Outcome], simulated: Outcome
) -> dict[str, Any]:
    return {
        "policy": policy,
        "jobs": kinds,
        "steps": steps,
        "simulated": dataclasses.asdict(simulated),
        "measured": [dataclasses.asdict(one) for one in measured],
        "makespan_off": [abs(simulated.makespan_s / one.makespan_s - 1) for one in measured],
        "mean_end_off": [abs(simulated.mean_end_s / one.mean_end_s - 1) for one in measured],
    }
