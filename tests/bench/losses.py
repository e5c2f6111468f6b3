"""Losses of each training under Hocket, two at once and everything moved at every boundary, against plain PyTorch's.

To the last bit: a sample is 1 where all losses of a job are the same, else 0.
"""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

from tests.bench import harness


def _identical(kind: str, steps: int) -> list[float]:
    """One sample for each of two jobs."""
    with harness.runtime_folder() as folder:

        def start(name: str, *how: str) -> subprocess.Popen[bytes]:
            size = "small" if harness.PLACE.emulated else "full"
            program = [sys.executable, "-m", "tests.gpu.programs.train", "--kind", kind, "--size", size]
            program += ["--steps", str(steps), "--losses", f"{folder}/{name}", *how]
            environment = {**os.environ, "HOCKET_RUNTIME_DIR": folder, "HOCKET_FORCE_SPILL": "1"}
            command = harness.emulate("bench-losses", "1GiB", program)
            return subprocess.Popen(command, cwd=harness.ROOT, env=environment, stdout=subprocess.DEVNULL)

        jobs = [start("plain", "--plain"), start("first"), start("second")]
        status = [job.wait() for job in jobs]
        if any(status):
            raise RuntimeError(f"a training of {kind} ended with status {status}")
        plain, *shared = [(pathlib.Path(folder) / name).read_text() for name in ("plain", "first", "second")]
        return [float(losses == plain) for losses in shared]


def run(quick: bool) -> None:
    from tests.bench.jobs import KINDS  # imports torch

    samples = {kind: _identical(kind, 3 if quick else 20) for kind in KINDS}
    every = [sample for of_kind in samples.values() for sample in of_kind]
    text = f"jobs ({', '.join(KINDS)}, two at once, forced spills) whose losses are identical"
    made = harness.Figure(
        "losses", text, sum(every) / len(every), min(every), max(every), 1.0, "plain torch", every, "of all", True
    )
    harness.record("losses", [made], extra={"identical": samples})
