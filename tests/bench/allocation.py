"""malloc + free and reserved memory, Hocket's allocator against PyTorch's native one.

Both replay the histories of real trainings (histories.py), in live processes, interleaved; no byte of device memory is
touched. Those that a GPU has recorded come first; a training of which there is none is recorded on the device that is
there.

A third contender is PyTorch's native allocator over Hocket's memory (HOCKET_ALLOCATOR=native).

A history is *steady* where its last two steps make the same allocations. Of several histories the page has the worst;
each of them is in the table below it.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import gzip
import pathlib
import statistics
import tempfile
from collections.abc import Iterator

from tests.bench import harness, histories, sizes
from tests.bench.histories import MEMORY

BRIEF = ("bert", "gpt", "gpt-untidy", "resnet-untidy")  # steps that change and steps that repeat
# What is compared -> (text, goal where steps repeat, goal elsewhere).
COMPARED = {
    "ns": ("time of all malloc and free", 0.8, 1.0),
    "p50": ("malloc or free, median", 0.8, 1.0),
    "p99": ("malloc or free, 99th percentile", 0.8, 1.0),
    "reserved": ("peak reserved, settled", 0.95, 1.0),
    "reserved_first": ("peak reserved, first steps", 1.0, 1.0),
}
CONTENDERS = ("native", "hocket", "redirected")
THREADS = (1, 2, 8)


@dataclasses.dataclass
class Compared:
    """A history's ratios hocket / native, and native over Hocket's memory / native; where it was recorded."""

    name: str
    steady: bool
    ratios: dict[str, list[float]]
    redirected: list[float]  # time of all malloc and free
    recorded_on: str = harness.EMULATED

    def median(self, key: str) -> float:
        return statistics.median(self.ratios[key])


def baseline(same: str) -> str:
    return f"PyTorch's native allocator, same {same}, same {'emulated ' if harness.PLACE.emulated else ''}GPU"


def fits(history: pathlib.Path) -> bool:
    """Whether the device has room for all contenders at once; emulated, each has one of its own."""
    at_once = 1 if harness.PLACE.emulated else len(CONTENDERS)
    needs = at_once * (histories.peak(history) * 5 // 4 + sizes.CONTEXT)
    there = sizes.free("bench-allocation-native", MEMORY)
    if needs > there:
        name = histories.name_of(history)
        print(f"allocation: {name} needs {needs / sizes.GIB:.1f} GiB, {there / sizes.GIB:.1f} are free")
    return needs <= there


@contextlib.contextmanager
def contenders(program: str, what: str) -> Iterator[dict[str, harness.Worker]]:
    """A worker for each allocator, as if no other one were there: ``native``, ``hocket``, and ``redirected``: the
    native one over Hocket's memory."""
    with contextlib.ExitStack() as stack:

        def worker(name: str) -> harness.Worker:
            folder = stack.enter_context(harness.runtime_folder())
            how = "native" if name == "native" else "hocket"
            command = harness.emulate(f"bench-allocation-{name}", MEMORY, [program, how, what], timing=True)
            environment = {"HOCKET_RUNTIME_DIR": folder}
            if name == "redirected":
                environment["HOCKET_ALLOCATOR"] = "native"
            return stack.enter_context(harness.Worker(command, environment, pathlib.Path(folder) / f"{name}.log"))

        yield {name: worker(name) for name in CONTENDERS}


def compare(history: pathlib.Path, recorded_on: str, program: str, rounds: int) -> Compared:
    with tempfile.TemporaryDirectory() as folder:
        plain = pathlib.Path(folder) / "history.txt"
        plain.write_bytes(gzip.decompress(history.read_bytes()))
        found = Compared(histories.name_of(history), True, {key: [] for key in COMPARED}, [], recorded_on)
        with contenders(program, str(plain)) as workers:
            for i in range(rounds):
                order = list(workers) if i % 2 else list(reversed(workers))
                answers = {name: workers[name].ask(steps=3) for name in order}
                native, ours = answers["native"], answers["hocket"]
                found.steady = native["steady"]
                for key, values in found.ratios.items():
                    values.append(ours[key] / native[key])
                found.redirected.append(answers["redirected"]["ns"] / native["ns"])
    return found


def _recorded_elsewhere(found: list[Compared]) -> str:
    """How many not on the emulated GPU, and where; "" where there are none."""
    devices = collections.Counter(each.recorded_on for each in found if each.recorded_on != harness.EMULATED)
    where = {device: device if device == histories.ELSEWHERE else f"on {device}" for device in devices}
    return "".join(f", {devices[device]} of them recorded {where[device]}" for device in sorted(devices))


def figures_of(all_found: list[Compared]) -> Iterator[harness.Figure]:
    for steady in (True, False):
        found = [f for f in all_found if f.steady == steady]
        if not found:
            continue
        which = f"{len(found)} histories whose steps {'repeat' if steady else 'change'}{_recorded_elsewhere(found)}"
        for key, (text, goal, goal_elsewhere) in COMPARED.items():
            worst = max(found, key=lambda f: f.median(key))
            yield harness.figure(
                f"allocation_{'steady' if steady else 'changing'}_{key}",
                f"{text}, {which}, the worst ({worst.name})",
                worst.ratios[key],
                goal if steady else goal_elsewhere,
                baseline("history"),
            )
        worst = max(found, key=lambda f: statistics.median(f.redirected))
        yield harness.figure(
            f"allocation_{'steady' if steady else 'changing'}_redirected",
            f"PyTorch's native allocator over Hocket's memory: {COMPARED['ns'][0]}, {which}, the worst ({worst.name})",
            worst.redirected,
            1.02,
            baseline("history"),
        )


def table_of(all_found: list[Compared]) -> dict[str, object]:
    """The table of all histories; see table.py."""
    columns = ["history", "steps", *(text for text, *_ in COMPARED.values()), "native over Hocket's memory, time"]
    columns.append("recorded on")
    rows = [
        [
            found.name,
            "repeat" if found.steady else "change",
            *(f"{found.median(key):.3f}" for key in COMPARED),
            f"{statistics.median(found.redirected):.3f}",
            found.recorded_on,
        ]
        for found in all_found
    ]
    return {"title": "Allocation, history by history: Hocket's allocator / PyTorch's native one, medians",
            "columns": columns, "rows": rows}  # fmt: skip


def threads(program: str, rounds: int) -> Iterator[harness.Figure]:
    ratios: dict[int, list[float]] = {count: [] for count in THREADS}
    with contenders(program, "threads") as workers:
        for i in range(rounds):
            order = ("native", "hocket") if i % 2 else ("hocket", "native")
            for count, values in ratios.items():
                answers = {name: workers[name].ask(threads=count)["ns"] for name in order}
                values.append(answers["hocket"] / answers["native"])
    for count, values in ratios.items():
        at_once = f"{count} threads at once" if count > 1 else "one thread"
        yield harness.figure(
            f"allocation_threads_{count}",
            f"malloc or free, sizes and order at random, {at_once}",
            values,
            1.0,
            baseline("calls"),
        )


def run(quick: bool) -> None:
    program = harness.binary("hocket_allocator_versus_native")
    rounds, names = harness.extent(quick, usual=(20, ()), brief=(5, BRIEF), least=(2, ("cnn",)))
    with histories.at_hand(names) as there:
        found = [compare(path, where, program, rounds) for path, where in there.items() if fits(path)]
    if not found:
        raise harness.NotRun("no history fits the device")
    figures = [*figures_of(found), *threads(program, rounds)]
    each = {f.name: {"steady": f.steady, "recorded_on": f.recorded_on, **f.ratios, "redirected": f.redirected}
            for f in found}  # fmt: skip
    harness.record("allocation", figures, extra={"tables": [table_of(found)], "histories": each})
