"""Device memory held by four jobs that share a lane, against the sum of persistent plus the largest transient.

The four are of the sizes that people train (GPT-2 124 M on 8 x 512 tokens, BERT-base's shape on 64 to 384 tokens,
ResNet-50 on 64 pictures, a large LSTM), on a device of 80 GiB: in timing mode nothing is computed, so they fit any
machine, and every allocation is as in values mode. Chunks are 32 MiB there, 4 MiB on 4 GiB. Four jobs of a few MiB
on 4 GiB are measured beside them, because whole chunks weigh more the smaller a job is.

Settled: the largest use while each of the four is past the first half of its steps. From start to end, the first
steps included, the largest use is a figure of its own.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass

from tests.bench import harness


@dataclass(frozen=True)
class Four:
    name: str
    text: str
    kinds: tuple[str, ...]
    memory: str
    timing: bool
    steps: int


TRAININGS = Four("memory_of_four", "four trainings", ("gpt", "bert", "resnet", "lstm"), "80GiB", True, 44)
SMALL = Four(
    "memory_of_four_small",
    "four jobs of a few MiB",
    ("small-mlp", "small-mlp-wide", "small-cnn", "small-cnn-wide"),
    "4GiB",
    False,
    44,
)


def _job(four: Four, device: str, kind: str, folder: str) -> subprocess.Popen[str]:
    program = [sys.executable, "-m", "tests.bench.memory_job", kind, str(four.steps)]
    command = harness.emulate(device, four.memory, program, timing=four.timing)
    environment = {**os.environ, "HOCKET_RUNTIME_DIR": folder}
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, env=environment, text=True, cwd=harness.ROOT)


def _alone(four: Four, kind: str, folder: str) -> dict[str, int]:
    out, _ = _job(four, f"bench-{four.name}-alone", kind, folder).communicate()
    return json.loads(out.splitlines()[-1])


def _largest_use(four: Four, device: str, folder: str) -> tuple[int, int]:
    """Runs the four at once; the device's largest use in bytes before they have settled, and after."""
    monitor = subprocess.Popen(
        harness.emulate(device, four.memory, [sys.executable, "-m", "tests.bench.monitor"], timing=four.timing),
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=harness.ROOT,
    )  # fmt: skip
    assert monitor.stdin and monitor.stdout and monitor.stdout.readline().strip() == "watching"
    jobs = [_job(four, device, kind, folder) for kind in four.kinds]
    used = []
    for said in ("settled", "done"):
        for job in jobs:
            assert job.stdout and job.stdout.readline().strip() == said, f"a job of {four.name} has ended"
        monitor.stdin.write(f"{said}\n")
        monitor.stdin.flush()
        used.append(int(monitor.stdout.readline()))
    for process in (*jobs, monitor):
        process.communicate("")
    return used[0], used[1]


def _measure(four: Four, repeats: int) -> tuple[list[harness.Figure], dict[str, object]]:
    with tempfile.TemporaryDirectory() as folder:
        alone = [_alone(four, kind, folder) for kind in four.kinds]
        least = sum(a["persistent"] for a in alone) + max(a["transient"] for a in alone)
        used = [_largest_use(four, f"bench-{four.name}-{repeat}", folder) for repeat in range(repeats)]
    baseline = "sum of persistent + largest transient (peak live bytes, each alone)"
    settled = harness.figure(
        four.name, f"device memory of {four.text}, settled", [after / least for _, after in used], 1.10, baseline
    )
    whole = harness.figure(
        f"{four.name}_whole",
        f"device memory of {four.text}, from start to end",
        [max(both) / least for both in used],
        1.10,
        baseline,
    )
    return [settled, whole], {"alone": alone, "least_bytes": least, "used_bytes": used}


def run(quick: bool) -> None:
    figures, raw = [], {}
    for four in (TRAININGS, SMALL):
        measured, raw[four.name] = _measure(four, repeats=3 if quick else 7)
        figures += measured
    harness.record("memory_of_four", figures, "emulated", raw)
