"""Step time under Hocket, alone on the device, against plain torch on the same device.

Two processes stay alive and run short blocks in the order A B B A; one ratio comes from each such four, so that what
drifts within a second cancels. Beside the wall time stands a second measure that other work on the machine disturbs
less: instructions retired where the machine counts them, else CPU time.
"""

from __future__ import annotations

import pathlib
import sys
import time
from typing import Any

from tests.bench import harness, sizes
from tests.bench.sizes import CONTEXT, GIB

Block = dict[str, Any]
BATCH = 8  # of the GPT that a GPU trains; half of it, and so on, where the card is too small


def batch_that_fits(free: int) -> int:
    """Of the full GPT: the worker without Hocket keeps what its largest step took, beside the other one's."""

    def needs(batch: int) -> int:
        return 2 * (GIB * 13 // 10 + batch * GIB * 11 // 20 + CONTEXT)  # 5.6 GiB of torch's cache at 8

    batch = BATCH
    while needs(batch) > free:
        batch //= 2
        if batch == 0:
            raise harness.NotRun(f"two GPTs need {needs(1) / GIB:.1f} GiB, and {free / GIB:.1f} GiB are free")
    if batch != BATCH:
        print(f"step_time: {free / GIB:.1f} GiB of the device are free: a batch of {batch} instead of {BATCH}")
    return batch


def fours(plain: harness.Worker, hocket: harness.Worker, steps: int, count: int, seconds: float) -> list[list[Block]]:
    """``count`` times [plain, hocket, hocket, plain], at least ten, fewer when ``seconds`` are over."""
    done: list[list[Block]] = []
    begin = time.monotonic()
    while len(done) < count and (len(done) < 10 or time.monotonic() - begin < seconds):
        order = (plain, hocket, hocket, plain) if len(done) % 2 else (hocket, plain, plain, hocket)
        blocks = [worker.ask(steps=steps) for worker in order]
        done.append(blocks if order[0] is plain else [blocks[1], blocks[0], blocks[3], blocks[2]])
    return done


def ratios(done: list[list[Block]], what: str) -> list[float]:
    """hocket / plain of each four."""
    return [(four[1][what] + four[2][what]) / (four[0][what] + four[3][what]) for four in done]


def compare(
    mode: str, goal: float, arguments: list[str], steps: int, count: int, seconds: float, batch: int = BATCH
) -> list[harness.Figure]:
    """Figures of one mode: ``values`` or ``timing`` (emulated), ``gpu``. Another batch: rows of their own."""
    with harness.runtime_folder() as folder:

        def worker(kind: str) -> harness.Worker:
            program = [sys.executable, "-m", "tests.bench.workload", kind, *arguments]
            command = harness.emulate(f"bench-{mode}", "4GiB", program, timing=mode == "timing")
            return harness.Worker(command, {"HOCKET_RUNTIME_DIR": folder}, pathlib.Path(folder) / f"{kind}.log")

        with worker("plain") as plain, worker("hocket") as hocket:
            for each in (plain, hocket):
                each.ask(steps=2 * steps)
            done = fours(plain, hocket, steps, count, seconds)
    baseline = "plain torch, native allocator, same device"
    where = "" if mode == "gpu" else f", {mode} mode"
    name_end = mode
    if batch != BATCH:
        where, name_end = f"{where}, a batch of {batch}", f"{mode}_batch_{batch}"
    measure = "instructions" if "instructions" in done[0][0] else "cpu"
    name = {"instructions": "instructions", "cpu": "CPU time"}[measure]
    return [
        harness.figure(f"step_time_{name_end}", f"step time alone{where}", ratios(done, "wall"), goal, baseline),
        harness.figure(
            f"step_{measure}_{name_end}",
            f"{name} of a step alone{where}",
            ratios(done, measure),
            max(goal, 1.02),
            baseline,
        ),
    ]


def run(quick: bool) -> None:
    seconds = harness.extent(quick, usual=80, brief=36, least=12)
    if harness.PLACE.emulated:
        figures = compare("values", 1.02, [], 5, 10 if quick else 200, seconds)
        figures += compare("timing", 1.01, ["--device-ms", "20"], 4, 10 if quick else 60, seconds)
    else:
        batch = batch_that_fits(sizes.free("bench-gpu", "80GiB"))
        arguments = ["--kind", "gpt", "--size", "full", "--batch", str(batch)]
        figures = compare("gpu", 1.005, arguments, 5, 15 if quick else 40, seconds / 3, batch)
    harness.record("step_time", figures)
