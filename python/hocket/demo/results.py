"""What the demo found: one record, shown as a table, written as JSON, and judged."""

from __future__ import annotations

import dataclasses
import itertools
import statistics
from pathlib import Path
from typing import Any

from rich import box
from rich.table import Table

from hocket.cli.common import duration, size
from hocket.demo.plan import SWITCH_SHARE
from hocket.demo.watch import Sample, Turn

FEWEST_TURNS = 4  # of each job, or they did not take turns; fewer where it has too few steps for them
COLUMNS = ("steps", "step\nalone", "step\nshared", "turns", "GPU\nshare", "peak\nalone", "spilled", "restored")


@dataclasses.dataclass(frozen=True)
class Job:
    """One training, alone and shared."""

    name: str
    title: str
    steps: int
    step_alone: float  # seconds, median
    step_shared: float
    peak_alone: int  # bytes of the device
    turns: int
    share: float  # of the time in which both wanted the device
    spilled: int
    restored: int
    identical: bool  # losses, to the last bit

    @property
    def fewest_turns(self) -> int:
        return min(FEWEST_TURNS, self.steps // 5)


@dataclasses.dataclass(frozen=True)
class Results:
    emulated: bool
    capacity: int
    jobs: list[Job]
    peak_together: int
    hand_over: float  # seconds, median
    turns: list[Turn]
    samples: list[Sample]

    @property
    def sum_alone(self) -> int:
        return sum(job.peak_alone for job in self.jobs)

    @property
    def largest_alone(self) -> int:
        return max(job.peak_alone for job in self.jobs)

    @property
    def spill_expected(self) -> bool:
        return self.sum_alone > self.capacity

    @property
    def identical(self) -> bool:
        return all(job.identical for job in self.jobs)

    def failures(self) -> list[str]:
        """What did not hold, as sentences; empty when the demo ended well."""
        found = [f"{job.name}: losses differ from those alone" for job in self.jobs if not job.identical]
        found += [
            f"{job.name} had {job.turns} turns, at least {job.fewest_turns} were expected"
            for job in self.jobs
            if job.turns < job.fewest_turns
        ]
        if not overlap(self.turns):
            names = " and ".join(job.name for job in self.jobs)
            found.append(f"{names} never wanted the GPU at the same time: nothing was shared")
        spilled = sum(job.spilled for job in self.jobs)
        if self.spill_expected and spilled == 0:
            found.append(
                f"nothing was spilled, though the two need {size(self.sum_alone)} of {size(self.capacity)} together"
            )
        return found

    def as_json(self, picture: Path) -> dict[str, Any]:
        return {
            **dataclasses.asdict(self),
            "sum_alone": self.sum_alone,
            "largest_alone": self.largest_alone,
            "losses_identical": self.identical,
            "failures": self.failures(),
            "picture": str(picture),
        }


def overlap(turns: list[Turn]) -> list[Turn]:
    """The turns of the time in which every job had some."""
    jobs = {turn.job for turn in turns}
    start = max((min(t.start for t in turns if t.job == job) for job in jobs), default=0)
    end = min((max(t.end for t in turns if t.job == job) for job in jobs), default=0)
    return [turn for turn in turns if turn.start >= start and turn.end <= end]


def share(turns: list[Turn], job: str) -> float:
    """The part of the turns' time that was ``job``'s."""
    total = sum(turn.end - turn.start for turn in turns)
    return sum(turn.end - turn.start for turn in turns if turn.job == job) / total if total else 0.0


def median_hand_over(turns: list[Turn]) -> float:
    changes = [now.hand_over for before, now in itertools.pairwise(turns) if now.job != before.job]
    return statistics.median(changes) if changes else 0.0


def table(results: Results) -> Table:
    where = "one emulated GPU" if results.emulated else "one GPU"
    title = f"Two trainings on {where} of {size(results.capacity)}"
    shown = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, padding=0)
    shown.add_column("training", no_wrap=True)
    for column in COLUMNS:
        shown.add_column(column, justify="right", no_wrap=True)
    for job in results.jobs:
        shown.add_row(
            job.name,
            str(job.steps),
            duration(job.step_alone),
            duration(job.step_shared),
            str(job.turns),
            f"{job.share:.0%}",
            size(job.peak_alone),
            size(job.spilled),
            size(job.restored),
        )
    return shown


def sentences(results: Results) -> list[str]:
    """The lines under the table."""
    return [
        f"peak device memory together: {size(results.peak_together)} "
        f"(the two alone: {size(results.sum_alone)} in sum, {size(results.largest_alone)} the larger)",
        f"hand-over, from the end of one job's turn to the other's first step: {duration(results.hand_over)} (median)",
        f"hand-overs that move bytes may take {SWITCH_SHARE:.0%} of the time in this demo (2% by default)",
        f"losses identical to running alone: {'yes' if results.identical else 'no'}",
    ]
