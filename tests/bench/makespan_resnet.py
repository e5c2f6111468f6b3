"""The makespan of two trainings of a full ResNet-50 (jobs.py) on synthetic images, whose loading pause is as long as
their step. They fit on the device together.

On the emulated GPU the device's time is modelled and nothing is computed: a CPU queues the kernels, ahead of them.
"""

from __future__ import annotations

import contextlib
from typing import Any

from tests.bench import harness, sizes, together
from tests.bench.sizes import CONTEXT, GIB

DEVICE, MEMORY = "bench-makespan-resnet", "80GiB"
RESERVED = 6 * GIB  # by torch, for one: 3.3 on the emulated GPU, and what cuDNN takes
TRAINING = ("--kind", "resnet", "--size", "full", "--logs")


def too_little() -> str:
    """Why they cannot be there together; "" where they can. Two run under Hocket, and two without."""
    free, needed = sizes.free(DEVICE, MEMORY), 4 * (RESERVED + CONTEXT)
    return "" if needed <= free else f"four need {needed / GIB:.1f} GiB; {free / GIB:.1f} GiB of the device are free"


def measure(steps: int, repeats: int) -> tuple[together.Found, dict[str, Any]]:
    """Their makespans, and what a step takes alone: wall time, and the CPU's, in milliseconds."""
    with harness.runtime_folder() as folder, contextlib.ExitStack() as stack:
        device = together.Device(stack, folder, TRAINING, DEVICE, MEMORY)
        plain, jobs = ([device.start(mode, number) for number in (1, 2)] for mode in ("plain", "hocket"))
        for each in (*plain, *jobs):
            each.ask(steps=2)
        harness.coordinator_in_real_time({"HOCKET_RUNTIME_DIR": folder})  # as its jobs are, which need the CPU
        alone = plain[0].ask(steps=steps)
        step_ms, cpu_ms = (1e3 * alone[what] / alone["steps"] for what in ("wall", "cpu"))
        block = {"steps": steps, "gap_ms": step_ms}
        together.run(jobs, **block)
        found = together.makespans(folder, jobs, plain, block, repeats)
    return found, {"step_ms": step_ms, "cpu_ms": cpu_ms, "pause_ms": step_ms}
