"""What every experiment shares: the traces, the simulator, and what is said of its answer.

An experiment is a function ``run(context) -> Result``: it turns a trace into jobs, has ``hocketd simulate`` play them,
and compares what came out with what is asked of it. No number of a result is typed in; those that it is compared
with carry their source.
"""

from __future__ import annotations

import csv
import dataclasses
import json
import pathlib
import statistics
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from typing import Any

from tests.bench import harness

Job = dict[str, Any]
Report = dict[str, Any]
GIB = 1 << 30
MIB = 1 << 20


@dataclasses.dataclass
class Goal:
    """One number against its reference.

    Attributes:
        text: what is compared.
        figure: what the simulation showed.
        bound: what the figure must not pass; ``at_least`` says on which side.
        source: where the bound comes from.
    """

    text: str
    figure: float
    bound: float
    source: str
    at_least: bool = False

    @property
    def met(self) -> bool:
        return self.figure >= self.bound if self.at_least else self.figure <= self.bound


@dataclasses.dataclass
class Result:
    """What an experiment found.

    Attributes:
        model: what is simulated, what it is taken to cost, and what is left out; stands above the table.
        rows: the table; all with the same keys.
        goals: what is asked of it.
        reading: what a reader should make of it: causes, and what was tried where a goal is not met.
        draw: draws the picture on a matplotlib figure.
    """

    model: str
    rows: list[dict[str, Any]]
    goals: list[Goal]
    reading: str = ""
    draw: Callable[[Any], None] | None = None


@dataclasses.dataclass
class Context:
    """Where an experiment finds what it needs, and how much of it is asked for."""

    workloads: pathlib.Path
    daemon: pathlib.Path
    quick: bool = False

    def rows(self, name: str) -> list[dict[str, str]]:
        """The rows of a CSV file of the workloads."""
        with open(self.workloads / name, encoding="utf-8") as file:
            return list(csv.DictReader(file))

    def simulate(
        self, jobs: Sequence[Job], policy: str, pairs: dict[str, dict[str, float]] | None = None, **flags: Any
    ) -> Report:
        """What ``hocketd simulate`` reports of ``jobs`` under ``policy``.

        Args:
            jobs: the rows of its file, all with the same keys.
            policy: one of its policies.
            pairs: what each kind of jobs runs at beside each other one; ``pack`` goes by it.
            flags: its other flags, ``-`` written as ``_``; True for one without a value.

        Raises:
            RuntimeError: with its sentence, where it refuses.
        """
        with tempfile.NamedTemporaryFile("w", newline="", encoding="utf-8") as file:
            if pairs is None:
                writer = csv.DictWriter(file, list(jobs[0]), lineterminator="\n")
                writer.writeheader()
                writer.writerows(jobs)
            else:
                json.dump({"jobs": list(jobs), "pairs": pairs}, file)
            file.flush()
            arguments = [
                f"--{name.replace('_', '-')}" + ("" if value is True else f"={value}")
                for name, value in flags.items()
                if value is not False
            ]
            command = [str(self.daemon), "simulate", file.name, f"--policy={policy}", *arguments]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()}")
        return json.loads(done.stdout)["policies"][policy]


def measured_hand_over_ms() -> tuple[float, str]:
    """What a hand-over that moves nothing costs, as measured (docs/results): a GPU's record before the emulated one."""
    records = sorted(harness.RESULTS.glob("hand_over*.json"), key=lambda path: path.name == "hand_over.json")
    data = json.loads(records[0].read_text())
    cost = statistics.median(data["nanoseconds"]["hand_over_p50_ns"]) / 1e6
    return cost, f"{cost:.3f} ms (median of {records[0].name}, {data['device']} device, commit {data['commit']})"


def coarsened(jobs: Sequence[Job], steps: int) -> list[Job]:
    """The same jobs with steps and gaps ``steps`` times as long, and so many times fewer (one at least)."""
    return [
        {
            **job,
            "steps": max(1, round(job["steps"] / steps)),
            "step_ms": job["step_ms"] * steps,
            "gap_ms": job.get("gap_ms", 0) * steps,
        }
        for job in jobs
    ]


def tenths(values: Sequence[float]) -> tuple[float, float, float]:
    """Median, 10th and 90th percentile."""
    if len(values) < 2:
        return values[0], values[0], values[0]
    cuts = statistics.quantiles(values, n=10)
    return statistics.median(values), cuts[0], cuts[8]
