"""Two jobs that each need the device half of their time: together under Hocket, one after the other, and side by side
as the driver slices time between them.

``fit``: everything stays resident. ``do not fit``: the overlap of their persistent memory moves at every hand-over; its
round trip is at most a quarter of the loading pause. And three jobs that load data for three quarters of their time, of
which two fit: a round trip takes longer than such a pause.
"""

from __future__ import annotations

import contextlib
import functools
import pathlib
import sys
import time
from typing import Any

from tests.bench import harness, sizes
from tests.bench.sizes import CONTEXT, MIB

HELD = (2048 + 192) * MIB
Found = tuple[dict[str, list[float]], dict[str, int]]


def _together(workers: list[harness.Worker], **block: float) -> float:
    """Seconds until all have done their steps, all at once. (A worker's own clock starts when it reads the request.)"""
    begin = time.perf_counter()
    for worker in workers:
        worker.begin(**block)
    for worker in workers:
        worker.end()
    return time.perf_counter() - begin


def _worker(stack: contextlib.ExitStack, folder: str, device_ms: float, mode: str, number: int) -> harness.Worker:
    program = [sys.executable, "-m", "tests.bench.workload", mode, "--kind", "cnn", "--name", f"job-{number}"]
    program += ["--device-ms", str(device_ms)]
    command = harness.emulate("bench-makespan", harness.Filled.EMULATED_MEMORY, program, timing=True)
    log = pathlib.Path(folder) / f"{mode}-{number}.log"
    return stack.enter_context(harness.Worker(command, {"HOCKET_RUNTIME_DIR": folder}, log))


def _ratios(device_ms: float, steps: int, repeats: int, held_mib: int, lacking_mib: int = 0) -> Found:
    """Makespans over that of one after the other, under Hocket and, where both fit, sliced by the driver; and why.

    ``lacking_mib``: so much of what both jobs hold has no place on the device.
    """
    fits = lacking_mib == 0
    with harness.runtime_folder() as folder, contextlib.ExitStack() as stack:
        worker = functools.partial(_worker, stack, folder, device_ms)
        jobs = [worker("hocket", number) for number in (1, 2)]
        # One alone stands for "one after the other" twice, so plain jobs need not fit beside each other.
        plain = [worker("plain", number) for number in ((1, 2) if fits else (1,))]
        block = {"steps": steps, "gap_ms": device_ms}
        _together(jobs, steps=2)
        for each in plain:
            each.ask(steps=2)
            each.ask(hold=held_mib * MIB)
        jobs[0].ask(hold=held_mib * MIB)
        if not fits:
            filled = stack.enter_context(harness.Filled("bench-makespan", folder))
            filled.leave((held_mib - lacking_mib) * MIB)
        jobs[1].ask(hold=held_mib * MIB)
        _together(jobs, steps=2)
        found: dict[str, list[float]] = {"hocket": [], "sliced": []}
        for _ in range(repeats):
            alone = 2 * _together(plain[:1], **block)
            found["hocket"].append(_together(jobs, **block) / alone)
            if fits:
                found["sliced"].append(_together(plain, **block) / alone)
        with harness.reasons({"HOCKET_RUNTIME_DIR": folder}) as said:  # once more, not counted
            _together(jobs, **block)
        return found, dict(said.most_common(6))


def _three(device_ms: float, gap_ms: float, steps: int, repeats: int, held_mib: int) -> Found:
    """Of three jobs, of which two fit on the device, with what is kept free for handles, and a part of one."""
    with harness.runtime_folder() as folder, contextlib.ExitStack() as stack:
        worker = functools.partial(_worker, stack, folder, device_ms)
        plain = worker("plain", 0)
        plain.ask(steps=2)
        jobs = [worker("hocket", number) for number in (1, 2, 3)]
        _together(jobs, steps=2)
        jobs[0].ask(hold=held_mib * MIB)
        filled = stack.enter_context(harness.Filled("bench-makespan", folder))
        filled.leave((held_mib + held_mib // 4) * MIB)
        for job in jobs[1:]:
            job.ask(hold=held_mib * MIB)
        block = {"steps": steps, "gap_ms": gap_ms}
        _together(jobs, **block)  # what moving costs is known then
        found: dict[str, list[float]] = {"hocket": []}
        for _ in range(repeats):
            alone = len(jobs) * _together([plain], **block)
            found["hocket"].append(_together(jobs, **block) / alone)
        with harness.reasons({"HOCKET_RUNTIME_DIR": folder}) as said:  # once more, not counted
            _together(jobs, **block)
        return found, dict(said.most_common(6))


def run(quick: bool) -> None:
    repeats, steps = harness.extent(quick, usual=(9, 40), brief=(5, 20), least=(2, 10))
    fit, why = _ratios(20, steps, repeats, 64)
    baseline = "the same two jobs one after the other, plain torch"
    figures = [
        harness.figure("makespan_fit", "makespan of two jobs of 50 % duty, both fit", fit["hocket"], 0.60, baseline),
        harness.figure(
            "makespan_sliced",
            "the same, plain torch side by side (the driver's time-slicing)",
            fit["sliced"],
            1.0,
            baseline,
        ),
    ]
    said = {"makespan_fit": why}
    extra: dict[str, Any] = {"what the coordinator said meanwhile": said}
    harness.record("makespan", figures, extra=extra)  # there, should the time be up in what follows
    # 128 MiB too much: on the emulated GPU copied in some 3 ms each way, beside a pause of 100 ms.
    held = sizes.fitting(
        "makespan",
        [HELD],
        sizes.free("bench-makespan", harness.Filled.EMULATED_MEMORY),
        lambda size: 3 * size + 4 * CONTEXT,  # a plain job stays beside the two; and the ballast
        lambda size: size,
    )[0]
    name = sizes.name("makespan_too_large", held, HELD)
    large, said[name] = _ratios(100, max(5, steps // 4), repeats, held // MIB, lacking_mib=128)
    text = "makespan of two jobs of 50 % duty that do not fit"
    text += "" if held == HELD else f" ({sizes.in_words(held)} each)"
    figures.append(harness.figure(name, text, large["hocket"], 0.70, baseline))
    harness.record("makespan", figures, extra=extra)
    held = sizes.fitting(
        "makespan",
        [HELD],
        sizes.free("bench-makespan", harness.Filled.EMULATED_MEMORY),
        lambda size: 3 * size + 5 * CONTEXT,  # a plain job beside the three; and the ballast
        lambda size: size,
    )[0]
    name = sizes.name("makespan_three", held, HELD)
    text = "makespan of three jobs of 25 % duty of which two fit"
    text += "" if held == HELD else f" ({sizes.in_words(held)} each)"
    baseline = baseline.replace("two", "three")
    if harness.PLACE.brief and not quick:
        why_not = "its blocks take minutes: scripts/bench makespan"
        extra["not_measured"] = [harness.not_measured(name, text, baseline, why_not)]
    else:
        # A turn lasts some 3 s there: in a block each job has several.
        three, said[name] = _three(20, 60, steps if quick else 6 * steps, 2 if quick else 5, held // MIB)
        figures.append(harness.figure(name, text, three["hocket"], 0.60, baseline))
    harness.record("makespan", figures, extra=extra)
