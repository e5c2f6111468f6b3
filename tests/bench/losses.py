"""Losses of each training under Hocket, two at once and everything moved at every boundary, against plain PyTorch's.

To the last bit: a sample is 1 where all losses of a job are the same, else 0.
"""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

from tests.bench import harness, sizes
from tests.bench.sizes import GIB

# Free bytes that the largest full trainings need: the plain one beside the two, and the two alone. With less they are
# small ones.
ALL_AT_ONCE, TWO = 15 * GIB, 7 * GIB


def _identical(kind: str, size: str, steps: int, all_at_once: bool) -> list[float]:
    """One sample for each of two jobs."""
    with harness.runtime_folder() as folder:

        def start(name: str, *how: str) -> subprocess.Popen[bytes]:
            program = [sys.executable, "-m", "tests.gpu.programs.train", "--kind", kind, "--size", size]
            program += ["--steps", str(steps), "--losses", f"{folder}/{name}", *how]
            environment = {**os.environ, "HOCKET_RUNTIME_DIR": folder, "HOCKET_FORCE_SPILL": "1"}
            command = harness.emulate("bench-losses", "1GiB", program)
            return subprocess.Popen(command, cwd=harness.ROOT, env=environment, stdout=subprocess.DEVNULL)

        jobs = [start(name, "--plain") for name in ("plain", "again")]
        if not all_at_once:
            for job in jobs:
                job.wait()
        jobs += [start("first"), start("second")]
        status = [job.wait() for job in jobs]
        if any(status):
            raise RuntimeError(f"a training of {kind} ended with status {status}")
        files = [pathlib.Path(folder) / name for name in ("plain", "again", "first", "second")]
        plain, again, *shared = [file.read_text() for file in files]
        if plain != again:
            raise RuntimeError(f"a training of {kind} loses something else each time, without Hocket")
        return [float(losses == plain) for losses in shared]


def run(quick: bool) -> None:
    from tests.bench.jobs import KINDS  # imports torch

    there = sizes.free("bench-losses", "1GiB")
    usual = "small" if harness.PLACE.emulated else "full"
    size = usual if there >= TWO else "small"
    all_at_once = size == "small" or there >= ALL_AT_ONCE
    if size != usual or not all_at_once:
        how = "small trainings instead of full ones" if size != usual else "the plain training goes before the others"
        print(f"losses: {there / GIB:.1f} GiB of the device are free: {how}")
    kinds, steps = harness.extent(quick, usual=(KINDS, 20), brief=(KINDS[:2], 10), least=(KINDS[:1], 3))
    samples = {kind: _identical(kind, size, steps, all_at_once) for kind in kinds}
    every = [sample for of_kind in samples.values() for sample in of_kind]
    name = "losses" if size == usual else "losses_small"
    jobs = "jobs" if size == usual else "small jobs"
    text = f"{jobs} ({', '.join(kinds)}, two at once, forced spills) whose losses are identical"
    made = harness.Figure(
        name, text, sum(every) / len(every), min(every), max(every), 1.0, "plain torch", every, "of all", True
    )
    harness.record("losses", [made], extra={"identical": samples})
