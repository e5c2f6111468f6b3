"""Step time under Hocket, alone on the device, against plain torch on the same emulated GPU."""

from __future__ import annotations

import pathlib
import sys
import tempfile

from tests.bench import harness


def compare(timing: bool, quick: bool) -> list[harness.Figure]:
    """Ratios hocket / plain of blocks that alternate between two live processes."""
    mode = "timing" if timing else "values"
    goal = 1.01 if timing else 1.02
    steps, pairs = (20, 10) if quick else (40, 40)
    arguments = ["20"] if timing else []  # timing: the step's kernels are worth 20 ms of the device
    with tempfile.TemporaryDirectory() as folder:
        environment = {"HOCKET_RUNTIME_DIR": folder}

        def worker(kind: str) -> harness.Worker:
            command = harness.emulate(
                f"bench-{mode}", "4GiB", [sys.executable, "-m", "tests.bench.workload", kind, *arguments], timing=timing
            )
            return harness.Worker(command, environment, pathlib.Path(folder) / f"{kind}.log")

        with worker("plain") as plain, worker("hocket") as hocket:
            plain.ask(steps=10), hocket.ask(steps=10)
            wall, instructions = [], []
            for pair in range(pairs):
                order = (plain, hocket) if pair % 2 else (hocket, plain)
                answers = {w: w.ask(steps=steps) for w in order}
                wall.append(answers[hocket]["wall"] / answers[plain]["wall"])
                if "instructions" in answers[plain]:
                    instructions.append(answers[hocket]["instructions"] / answers[plain]["instructions"])
    baseline = "plain torch, native allocator, same emulated GPU"
    figures = [harness.figure(f"step_time_{mode}", f"step time alone, {mode} mode", wall, goal, baseline)]
    if instructions:
        figures.append(
            harness.figure(
                f"step_instructions_{mode}", f"instructions of a step alone, {mode} mode", instructions, goal, baseline
            )
        )
    return figures


def run(quick: bool) -> None:
    figures = compare(timing=False, quick=quick) + compare(timing=True, quick=quick)
    harness.record("step_time", figures, "emulated")
