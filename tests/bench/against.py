"""Hocket's spills and restores against others that move device memory to the host and back at the same addresses, in
turns: the driver's checkpoint calls (checkpoint_job.py) and torch_memory_saver (saver_job.py).

A contender that is not there, or that the driver refuses, is *not measured*, and the record says why; so is one whose
rounds would take longer than there is time for.
"""

from __future__ import annotations

import dataclasses
import functools
import pathlib
import statistics
import sys
import tempfile
from collections.abc import Callable, Sequence
from typing import Any

from tests.bench import harness

Round = dict[str, Any]  # "out" and "in" in nanoseconds


@dataclasses.dataclass(frozen=True)
class Contender:
    """Attributes:
    key: ends the names of its figures.
    text: what it is, in the table.
    out, back: what it calls, in the table.
    module: the worker.
    """

    key: str
    text: str
    out: str
    back: str
    module: str


CONTENDERS = (
    Contender("checkpoint", "the driver's checkpoint of a process", "cuCheckpointProcessLock and -Checkpoint",
              "cuCheckpointProcessRestore and -Unlock", "tests.bench.checkpoint_job"),
    Contender("memory_saver", "torch_memory_saver", "pause() with a copy on the host", "resume()",
              "tests.bench.saver_job"),
)  # fmt: skip
WAYS = (("out", "spill"), ("in", "restore"))


class NotMeasured(Exception):
    """Why."""


@dataclasses.dataclass
class Found:
    figures: list[harness.Figure] = dataclasses.field(default_factory=list)
    not_measured: list[dict[str, str]] = dataclasses.field(default_factory=list)
    raw: list[dict[str, Any]] = dataclasses.field(default_factory=list)


def compare(device: str, memory: str, sizes_mib: Sequence[int], rounds: int, seconds: float) -> Found:
    """All contenders at all sizes. ``seconds``: what each may take at each size."""
    found = Found()

    def worker(folder: str, name: str, program: list[str]) -> harness.Worker:
        command = harness.undisturbed(harness.emulate(device, memory, program, timing=True))
        return harness.Worker(command, {}, pathlib.Path(folder) / f"{name}.log")

    for mib in sizes_mib:
        program = [harness.binary("hocket_bench_spill"), "--in-turns", str(mib)]
        with tempfile.TemporaryDirectory() as folder, worker(folder, "ours", program) as ours:
            ours.end()
            for contender in CONTENDERS:
                program = [sys.executable, "-m", contender.module, str(mib << 20)]
                with worker(folder, contender.key, program) as other:
                    add(found, contender, mib, functools.partial(in_turns, ours, other, rounds, seconds))
    return found


def in_turns(ours: Any, other: Any, rounds: int, seconds: float) -> tuple[list[Round], list[Round]]:
    """So many rounds of each. NotMeasured says why there are none."""
    first = _answer(other.end)
    lasts = (first["out"] + first["in"]) / 1e9
    if lasts * rounds > seconds:
        raise NotMeasured(f"a round took {lasts:.1f} s; {rounds} of them do not fit into the {seconds:g} s for it")
    mine, theirs = [], []
    for _ in range(rounds):
        mine.append(ours.ask())
        theirs.append(_answer(other.ask))
    return mine, theirs


def _answer(ask: Callable[[], Round]) -> Round:
    try:
        said = ask()
    except RuntimeError as error:  # it has ended
        raise NotMeasured(" ".join(str(error).split())[-300:]) from error
    if "not_measured" in said:
        raise NotMeasured(said["not_measured"])
    if not said["right"] and not harness.PLACE.emulated:  # where nothing is computed no bytes are right or wrong
        raise NotMeasured(f"{said['through']}: the bytes that came back are not those that had left")
    return said


def add(found: Found, contender: Contender, mib: int, rounds: Callable[[], tuple[list[Round], list[Round]]]) -> None:
    """Its figures at this size, or the reason why there are none."""
    gib = mib / 1024
    names = {way: f"{verb}_{gib:g}_gib_against_{contender.key}" for way, verb in WAYS}
    texts = {way: f"{verb}, {gib:g} GiB: so many times as fast as {contender.text}" for way, verb in WAYS}
    calls = {"out": contender.out, "in": contender.back}
    try:
        mine, theirs = rounds()
    except NotMeasured as why:
        for way, _ in WAYS:
            found.not_measured.append(harness.not_measured(names[way], texts[way], calls[way], str(why)))
        return
    for way, _ in WAYS:
        rate = (mib << 20) / statistics.median(each[way] for each in theirs)
        ratios = [other[way] / ours[way] for ours, other in zip(mine, theirs, strict=True)]
        baseline = f"{calls[way]}, {rate:.2f} GB/s, through {theirs[0]['through']}"
        found.figures.append(harness.figure(names[way], texts[way], ratios, 1.0, baseline, at_least=True))
    found.raw.append({"against": contender.key, "bytes": mib << 20, "ours": mine, "theirs": theirs})
