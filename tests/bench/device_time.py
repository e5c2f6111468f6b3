"""The emulated GPU's timing mode itself: what a step worth 20 ms takes, and how two busy processes share the device.

Real torch programs (device_time_job.py). Wall time is compared with what the cost model says, CPU time with the same
training on so few tokens that the device waits for the host: its dispatch alone, at the same pace and without a pause.
"""

from __future__ import annotations

import contextlib
import pathlib
import sys
import tempfile

from tests.bench import harness
from tests.bench.device_time_job import STEP_SECONDS


def run(quick: bool) -> None:
    if not harness.PLACE.emulated:
        print("device_time measures the emulated GPU; say --emulate")
        return
    repeats, steps, window = (8, 10, 1.0) if quick else (20, 40, 3.0)
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:

        def worker(name: str) -> harness.Worker:
            program = [sys.executable, "-m", "tests.bench.device_time_job"]
            command = harness.emulate("bench-device-time", "16GiB", program, timing=True)
            return stack.enter_context(harness.Worker(command, {}, pathlib.Path(folder) / f"{name}.log"))

        one, other = worker("one"), worker("other")
        for program in ("products", "training", "dispatch", "paced"):
            for each in (one, other):
                each.ask(program=program, steps=5)
        alone, shares, wall, cpu, unpaced = [], [], [], [], []
        for _ in range(repeats):
            block = one.ask(program="products", steps=steps)
            wall.append(block["wall"] / block["steps"] / STEP_SECONDS)
            alone.append(100 * block["steps"] * STEP_SECONDS / block["wall"])
            for each in (one, other):
                each.begin(program="products", seconds=window)
            done = [each.end()["steps"] for each in (one, other)]
            shares.append(100 * abs(2 * done[0] / sum(done) - 1))
            paced, work, dispatch = (one.ask(program=p, steps=steps) for p in ("paced", "training", "dispatch"))
            cpu.append(work["cpu"] / paced["cpu"])
            unpaced.append(work["cpu"] / dispatch["cpu"])
    model = "what the cost model says"
    figures = [
        harness.figure("timing_step_wall", "step worth 20 ms, timing mode: wall time", wall, 1.05, model),
        harness.figure(
            "timing_step_cpu",
            "step worth 20 ms, timing mode: CPU time",
            cpu,
            1.1,
            "its dispatch alone (few tokens), a step every 20 ms",
        ),
        harness.figure(
            "timing_step_cpu_unpaced",
            "step worth 20 ms, timing mode: CPU time, against steps without a pause",
            unpaced,
            1.1,
            "its dispatch alone (few tokens), one step after the other",
        ),
        harness.figure(
            "timing_share", "two busy processes, timing mode: off half by", shares, 5, "half the device", unit="%"
        ),
        harness.figure(
            "timing_alone",
            "one process alone, timing mode: gets",
            alone,
            95,
            "all of the device",
            unit="%",
            at_least=True,
        ),
    ]
    harness.record("device_time", figures, extra={"speaks_of": ["csrc/emulator"]})
