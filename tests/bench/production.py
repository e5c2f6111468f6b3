"""A production job with pauses, an opportunistic one that takes them: what the first loses, what the second gets.

Under the policy ``priority``, against the production job alone, against both side by side as the driver slices time
between them, and against an oracle that knows all and schedules whole steps of both within the same bound
(``tests/experiments/e5.py``).
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import subprocess
import sys
from typing import Any

from tests.bench import harness
from tests.experiments.e5 import oracle

BOUND = 0.02  # of the production job's speed, for all others together: the policy's default
# Device time and pause of the production job, device time of the other, milliseconds.
PAIRS = [(20.0, 20.0, 5.0), (10.0, 30.0, 8.0), (30.0, 15.0, 4.0)]


class Pair:
    """Both jobs, each as a worker under Hocket and as one without."""

    def __init__(
        self, stack: contextlib.ExitStack, folder: str, device_ms: float, gap_ms: float, other_ms: float
    ) -> None:
        self.gap_ms = gap_ms

        def worker(mode: str, name: str, ms: float, priority: str) -> harness.Worker:
            program = [sys.executable, "-m", "tests.bench.workload", mode, "--kind", "cnn"]
            program += ["--device-ms", str(ms), "--name", name, "--priority", priority]
            command = harness.emulate(f"bench-production-{mode}", "4GiB", program, timing=True)
            log = pathlib.Path(folder) / f"{mode}-{name}.log"
            return stack.enter_context(harness.Worker(command, {"HOCKET_RUNTIME_DIR": folder}, log))

        self.jobs = {
            mode: (worker(mode, "production", device_ms, "high"), worker(mode, "other", other_ms, "low"))
            for mode in ("hocket", "plain")
        }
        for pair in self.jobs.values():
            for job in pair:
                job.ask(steps=3)

    def alone(self, mode: str, seconds: float) -> dict[str, Any]:
        return self.jobs[mode][0].ask(seconds=seconds, gap_ms=self.gap_ms)

    def together(self, mode: str, seconds: float) -> tuple[dict[str, Any], dict[str, Any]]:
        production, other = self.jobs[mode]
        production.begin(seconds=seconds, gap_ms=self.gap_ms)
        other.begin(seconds=seconds)
        return production.end(), other.end()


def _each(answer: dict[str, Any]) -> float:
    """Milliseconds for a step and what comes before it."""
    return 1e3 * answer["wall"] / answer["steps"]


def _pause(answer: dict[str, Any]) -> float:
    """Milliseconds of a pause, by the clock of who paused.

    What a step takes longer after a pause than right after a step is the step's: nobody else can have the device then.
    """
    return 1e3 * answer["paused"] / answer["steps"]


def _measure(pair: tuple[float, float, float], seconds: float, repeats: int) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {
        "slowed": [],
        "harvest": [],
        "sliced_slowed": [],
        "sliced_harvest": [],
        "oracle": [],
    }
    with harness.runtime_folder() as folder, contextlib.ExitStack() as stack:
        jobs = Pair(stack, folder, *pair)
        environment = {**os.environ, "HOCKET_RUNTIME_DIR": folder}
        subprocess.run([harness.hocket(), "policy", "priority"], env=environment, check=True, capture_output=True)
        jobs.together("hocket", seconds)  # the policy learns their times
        for _ in range(repeats):
            other = _each(jobs.jobs["plain"][1].ask(seconds=seconds / 2))
            production = jobs.alone("plain", seconds)
            alone, gap = _each(production), _pause(production)
            most = oracle((round(alone - gap, 1), round(gap, 1)), (round(other, 1), 0.0), 1 / (1 + BOUND))
            for mode, key in (("hocket", ""), ("plain", "sliced_")):
                production, opportunistic = jobs.together(mode, seconds)
                found[f"{key}slowed"].append(_each(production) / alone - 1)
                found[f"{key}harvest"].append(other / _each(opportunistic) / most)
            found["oracle"].append(most)
    return found


def run(quick: bool) -> None:
    one = PAIRS[:1]
    pairs, seconds, repeats = harness.extent(quick, usual=(PAIRS, 4.0, 5), brief=(one, 2.0, 5), least=(one, 0.8, 2))
    found = {pair: _measure(pair, seconds, repeats) for pair in pairs}

    def worst(key: str, pick: Any) -> list[float]:
        return pick((found[pair][key] for pair in pairs), key=lambda values: harness.interval(values)[0])

    alone = "the production job alone, plain torch"
    whole = "an oracle that schedules whole steps and knows all, same bound"
    many = "one pair" if pairs == one else f"the worst of {len(pairs)} pairs"
    figures = [
        harness.figure(
            "production_slowed",
            f"production job slowed by an opportunistic one, {many}",
            worst("slowed", max),
            BOUND,
            alone,
        ),
        harness.figure(
            "production_harvest",
            f"what the opportunistic job gets, {many}",
            worst("harvest", min),
            0.9,
            whole,
            at_least=True,
        ),
        harness.figure(
            "production_sliced_slowed",
            f"production job slowed where the driver slices time, {many}",
            worst("sliced_slowed", max),
            BOUND,
            alone,
        ),
        harness.figure(
            "production_sliced_harvest",
            f"what the opportunistic job gets where the driver slices time, {many}",
            worst("sliced_harvest", min),
            0.9,
            f"{whole} (which slicing does not keep)",
            at_least=True,
        ),
    ]
    each = [{"device_ms, gap_ms, other_ms": pair, **values} for pair, values in found.items()]
    harness.record("production", figures, extra={"pairs": each})
