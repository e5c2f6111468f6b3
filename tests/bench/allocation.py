"""malloc + free and reserved memory, Hocket's allocator against PyTorch's native one.

The histories of real trainings (more_jobs.py) are recorded first, with PyTorch's native allocator, where no GPU is
there on an emulated one of 80 GiB that computes nothing: sizes and order are those of a GPU. Both allocators replay
them, in live processes, interleaved; no byte of device memory is touched. HOCKET_HISTORIES names a folder of histories
recorded elsewhere (``NAME.txt.gz``; tests/allocator/bench/history.h says what is in one) to be replayed instead.

A third contender is PyTorch's native allocator over Hocket's memory (HOCKET_ALLOCATOR=native).

A history is *steady* where its last two steps make the same allocations. Of several histories the page has the worst;
each of them is in the table below it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import gzip
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Collection, Iterator

from tests.bench import harness, sizes

UNTIDY = ("gpt", "resnet", "bert", "unet")  # recorded a second time, untidy
BRIEF = ("bert", "gpt", "gpt-untidy", "resnet-untidy")  # steps that change and steps that repeat
MEMORY = "80GiB"
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
    """A history's ratios hocket / native, and native over Hocket's memory / native."""

    name: str
    steady: bool
    ratios: dict[str, list[float]]
    redirected: list[float]  # time of all malloc and free

    def median(self, key: str) -> float:
        return statistics.median(self.ratios[key])


def baseline(same: str) -> str:
    return f"PyTorch's native allocator, same {same}, same {'emulated ' if harness.PLACE.emulated else ''}GPU"


def recordings() -> dict[str, tuple[str, ...]]:
    """How each history is made: its name -> what tests/gpu/programs/history.py is told."""
    from tests.bench.more_jobs import KINDS  # imports torch

    tidy = {kind: ("--kind", kind) for kind in KINDS}
    return tidy | {f"{kind}-untidy": ("--kind", kind, "--untidy") for kind in UNTIDY}


def record_histories(folder: pathlib.Path, names: Collection[str]) -> None:
    """``NAME.txt.gz`` of each."""
    made = recordings()
    for name in names or made:
        program = [sys.executable, "-m", "tests.gpu.programs.history", *made[name], "--size", "full"]
        command = harness.emulate("bench-histories", MEMORY, [*program, f"{folder}/{name}.txt.gz"], timing=True)
        subprocess.run(command, check=True, cwd=harness.ROOT, stdout=subprocess.DEVNULL)


def name_of(history: pathlib.Path) -> str:
    return history.name.split(".")[0]


def chosen(folder: pathlib.Path, names: Collection[str]) -> list[pathlib.Path]:
    """The folder's histories of these names, or all where it has none of them."""
    every = sorted(folder.glob("*.txt.gz"))
    return [history for history in every if name_of(history) in names] or every


def peak(history: pathlib.Path) -> int:
    """Bytes alive at most."""
    most, now = 0, 0
    with gzip.open(history, "rt") as lines:
        for line in lines:
            if not line.startswith("#"):
                now += int(line.split()[1])
                most = max(most, now)
    return most


def fits(history: pathlib.Path) -> bool:
    """Whether the device has room for all contenders at once; emulated, each has one of its own."""
    at_once = 1 if harness.PLACE.emulated else len(CONTENDERS)
    needs = at_once * (peak(history) * 5 // 4 + sizes.CONTEXT)
    there = sizes.free("bench-allocation-native", MEMORY)
    if needs > there:
        print(f"allocation: {name_of(history)} needs {needs / sizes.GIB:.1f} GiB, {there / sizes.GIB:.1f} are free")
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


def compare(history: pathlib.Path, program: str, rounds: int) -> Compared:
    with tempfile.TemporaryDirectory() as folder:
        plain = pathlib.Path(folder) / "history.txt"
        plain.write_bytes(gzip.decompress(history.read_bytes()))
        found = Compared(name_of(history), True, {key: [] for key in COMPARED}, [])
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


def figures_of(all_found: list[Compared]) -> Iterator[harness.Figure]:
    for steady in (True, False):
        found = [f for f in all_found if f.steady == steady]
        if not found:
            continue
        which = f"{len(found)} histories whose steps {'repeat' if steady else 'change'}"
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
    rows = [
        [
            found.name,
            "repeat" if found.steady else "change",
            *(f"{found.median(key):.3f}" for key in COMPARED),
            f"{statistics.median(found.redirected):.3f}",
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
    with tempfile.TemporaryDirectory() as made:
        folder = pathlib.Path(os.environ.get("HOCKET_HISTORIES") or made)
        if folder == pathlib.Path(made):
            record_histories(folder, names)
        histories = chosen(folder, names)
        if not histories:
            raise RuntimeError(f"{folder} has no history: no file is called NAME.txt.gz")
        found = [compare(history, program, rounds) for history in histories if fits(history)]
    if not found:
        raise harness.NotRun("no history fits the device")
    figures = [*figures_of(found), *threads(program, rounds)]
    raw = {f.name: {"steady": f.steady, **f.ratios, "redirected": f.redirected} for f in found}
    harness.record("allocation", figures, extra={"tables": [table_of(found)], "histories": raw})
