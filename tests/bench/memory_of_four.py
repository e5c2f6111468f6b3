"""Device memory held by four jobs that share a lane, against the sum of persistent plus the largest transient."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile

from tests.bench import harness

KINDS = ("mlp", "mlp-wide", "cnn", "cnn-wide")


def _job(name: str, kind: str, steps: int, folder: str) -> subprocess.Popen[str]:
    command = harness.emulate(name, "4GiB", [sys.executable, "-m", "tests.bench.memory_job", kind, str(steps)])
    environment = {**os.environ, "HOCKET_RUNTIME_DIR": folder}
    return subprocess.Popen(command, stdout=subprocess.PIPE, env=environment, text=True, cwd=harness.ROOT)


def _largest_use(name: str, steps: int, folder: str) -> int:
    """Runs the four at once and returns the device's largest use in bytes."""
    monitor = subprocess.Popen(
        harness.emulate(name, "4GiB", [sys.executable, "-m", "tests.bench.monitor"]),
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=harness.ROOT,
    )  # fmt: skip
    assert monitor.stdout and monitor.stdout.readline().strip() == "watching"
    jobs = [_job(name, kind, steps, folder) for kind in KINDS]
    codes = [job.wait() for job in jobs]
    out, _ = monitor.communicate("")
    if any(codes):
        raise RuntimeError(f"a job of memory_of_four ended with status {codes}")
    return int(out.split()[-1])


def run(quick: bool) -> None:
    steps, repeats = (5, 5) if quick else (15, 7)
    ratios, raw = [], []
    with tempfile.TemporaryDirectory() as folder:
        alone = []
        for kind in KINDS:
            out, _ = _job("bench-memory-alone", kind, steps, folder).communicate()
            alone.append(json.loads(out.splitlines()[-1]))
        least = sum(a["persistent"] for a in alone) + max(a["transient"] for a in alone)
        for repeat in range(repeats):
            used = _largest_use(f"bench-memory-{repeat}", steps, folder)
            ratios.append(used / least)
            raw.append(used)
    figure = harness.figure(
        "memory_of_four",
        "device memory of four jobs",
        ratios,
        1.10,
        "sum of persistent + largest transient (peak live bytes, each alone)",
    )
    harness.record("memory_of_four", [figure], "emulated", {"alone": alone, "least_bytes": least, "used_bytes": raw})
