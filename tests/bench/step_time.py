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

from tests.bench import harness

Block = dict[str, Any]


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
    mode: str, goal: float, arguments: list[str], steps: int, count: int, seconds: float
) -> list[harness.Figure]:
    """Figures of one mode: ``values`` or ``timing`` (emulated), ``gpu``."""
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
    measure = "instructions" if "instructions" in done[0][0] else "cpu"
    name = {"instructions": "instructions", "cpu": "CPU time"}[measure]
    return [
        harness.figure(f"step_time_{mode}", f"step time alone{where}", ratios(done, "wall"), goal, baseline),
        harness.figure(
            f"step_{measure}_{mode}", f"{name} of a step alone{where}", ratios(done, measure), max(goal, 1.02), baseline
        ),
    ]


def run(quick: bool) -> None:
    seconds = 12 if quick else 80
    if harness.PLACE.emulated:
        figures = compare("values", 1.02, [], 5, 40 if quick else 200, seconds)
        figures += compare("timing", 1.01, ["--device-ms", "20"], 4, 20 if quick else 60, seconds)
    else:
        figures = compare("gpu", 1.005, ["--kind", "gpt", "--size", "full"], 5, 15 if quick else 40, seconds / 3)
    harness.record("step_time", figures)
