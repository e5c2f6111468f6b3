"""What outlives its step: is it born in its place, or must its chunks be taken out of the arena at a hand-over?

Replays the histories of real trainings (histories.py) over Hocket's allocator, with a hand-over after every step
(allocator/bench/replay.cc). Nothing here depends on time or on the device but for its size: once suffices, and a sample
is a window of some steps.

A history is *steady* where its last two steps make the same allocations; of one that is not, the last three come in
turn, and what they leave alive is freed at the end of the step that follows. The first repetitions are left out: the
allocator has to see a step thrice. Of several histories the page has the worst; each is in the table below it.
"""

from __future__ import annotations

import dataclasses
import gzip
import json
import os
import pathlib
import subprocess
from collections.abc import Iterator

from tests.bench import harness, histories

MIB = 1 << 20
CHUNK = "8MiB"  # of a device of 80 GiB (docs/decisions/0042)
LEARNT = 3  # steps
WINDOW = 5  # steps


@dataclasses.dataclass
class Survived:
    """What a history's settled steps, each as the replay says it, come to."""

    name: str
    steps: list[dict[str, int]]

    @property
    def steady(self) -> bool:
        return bool(self.steps[-1]["steady"])

    def _windows(self) -> Iterator[list[dict[str, int]]]:
        for begin in range(0, len(self.steps) - WINDOW + 1, WINDOW):
            yield self.steps[begin : begin + WINDOW]

    def moved(self) -> list[float]:
        """Of each window: bytes of chunks taken out of the arena / bytes of survivors."""
        return [_total(window, "adopted") / max(1, _total(window, "survived")) for window in self._windows()]

    def private(self) -> list[float]:
        """Of each window: the most private memory / what lives in it, at a step's end."""
        return [max(step["persistent"] / step["live"] for step in window) for window in self._windows()]

    def row(self) -> list[str]:
        survived, allocations = _total(self.steps, "survived"), _total(self.steps, "allocations")
        return [
            self.name,
            "repeat" if self.steady else "change",
            f"{survived / len(self.steps) / MIB:.1f}",
            f"{_total(self.steps, 'adopted') / max(1, survived):.3f}",
            f"{_total(self.steps, 'foreseen') / survived:.3f}" if survived else "-",
            f"{_total(self.steps, 'planned') / allocations:.3f}",
            f"{_total(self.steps, 'deviating') / len(self.steps):.1f}",
            f"{max(self.private()):.3f}",
        ]


COLUMNS = ["history", "steps", "survivors, MiB a step", "of them taken out of the arena", "foreseen",
           "allocations placed by plan", "deviations a step", "private memory / what lives in it"]  # fmt: skip


def _total(steps: list[dict[str, int]], key: str) -> int:
    return sum(step[key] for step in steps)


def replay(history: pathlib.Path, repetitions: int) -> Survived:
    program = [harness.binary("hocket_allocator_replay"), CHUNK, str(repetitions), "--json"]
    said = subprocess.run(
        program, input=gzip.decompress(history.read_bytes()), capture_output=True, check=True,
        env={**os.environ, "HOCKET_EMULATOR_MEMORY": histories.MEMORY},
    ).stdout  # fmt: skip
    steps = [json.loads(line) for line in said.splitlines()]
    return Survived(histories.name_of(history), steps[LEARNT - repetitions :])


def figures_of(all_found: list[Survived]) -> Iterator[harness.Figure]:
    for steady in (True, False):
        found = [each for each in all_found if each.steady == steady]
        if not found:
            continue
        kind = f"histories whose steps {'repeat' if steady else 'change'}"
        worst = max(found, key=lambda each: sum(each.moved()))
        yield harness.figure(
            f"survivors_{'steady' if steady else 'changing'}_moved",
            f"chunks taken out of the arena for what outlives its step, {len(found)} {kind}, the worst ({worst.name})",
            worst.moved(),
            0.0 if steady else 0.05,
            "bytes of what outlives its step",
        )
        found = [each for each in found if _total(each.steps, "survived")]
        if not found:
            continue
        worst = max(found, key=lambda each: max(each.private()))
        yield harness.figure(
            f"survivors_{'steady' if steady else 'changing'}_private",
            f"private memory at a step's end, {kind}, the {len(found)} with survivors, the worst ({worst.name})",
            worst.private(),
            1.1,
            "bytes that live in it",
        )


def run(quick: bool) -> None:
    if not harness.PLACE.emulated:
        raise harness.NotRun("nothing of it depends on the device: scripts/bench --emulate survivors")
    repetitions, names = harness.extent(quick, usual=(203, ()), brief=(28, ()), least=(13, ("cnn",)))
    with histories.at_hand(names) as there:
        found = [replay(path, repetitions) for path in there]
    table = {"title": "What outlives its step, history by history", "columns": COLUMNS,
             "rows": [each.row() for each in found]}  # fmt: skip
    harness.record("survivors", list(figures_of(found)), extra={"tables": [table], "speaks_of": ["allocator"]})
