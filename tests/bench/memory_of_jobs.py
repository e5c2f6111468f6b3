"""Device memory held by jobs that share a lane, against the sum of persistent plus the largest transient.

Two, four and eight trainings of the sizes that people train (jobs.py, more_jobs.py), on a device of 80 GiB: in timing
mode nothing is computed, so they fit any machine, and every allocation is as in values mode. Chunks are 4 MiB there,
2 MiB on 4 GiB. Four jobs of a few MiB on 4 GiB are measured beside them, because whole chunks weigh more the smaller a
job is.

The jobs take their turns in a circle, a step each: under the coordinator's usual policy those with short steps would
be done long before the others, and the figure would be of fewer jobs than it says.

Settled: the largest use while each job is past the first half of its steps. From start to end, the first steps
included, the largest use is a figure of its own.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass

from tests.bench import harness, sizes
from tests.bench.sizes import CONTEXT


@dataclass(frozen=True)
class Mix:
    name: str
    text: str
    kinds: tuple[str, ...]
    memory: str = "80GiB"
    timing: bool = True
    steps: int = 24


TRAININGS = ("gpt", "resnet", "bert", "lstm", "gan", "unet", "lora", "evaluated")
SMALL = ("small-mlp", "small-mlp-wide", "small-cnn", "small-cnn-wide")
MIXES = (
    Mix("memory_of_two", "two trainings", TRAININGS[:2]),
    Mix("memory_of_four", "four trainings", TRAININGS[:4]),
    Mix("memory_of_eight", "eight trainings", TRAININGS),
    Mix("memory_of_four_small", "four jobs of a few MiB", SMALL, "4GiB", timing=False, steps=44),
)


def _job(mix: Mix, device: str, kind: str, folder: str) -> subprocess.Popen[str]:
    program = [sys.executable, "-m", "tests.bench.memory_job", kind, str(mix.steps)]
    command = harness.emulate(device, mix.memory, program, timing=mix.timing)
    environment = {**os.environ, "HOCKET_RUNTIME_DIR": folder, "HOCKET_POLICY": "round-robin"}
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, env=environment, text=True, cwd=harness.ROOT)


def _alone(mix: Mix, kind: str, folder: str) -> dict[str, int]:
    job = _job(mix, f"bench-{mix.name}-alone", kind, folder)
    out, _ = job.communicate()
    if job.returncode:
        there = sizes.in_words(sizes.free(f"bench-{mix.name}-alone", mix.memory) // sizes.MIB * sizes.MIB)
        raise harness.NotRun(f"{kind} alone ended with status {job.returncode}, with {there} of the device free")
    return json.loads(out.splitlines()[-1])


def _must_fit(mix: Mix, least: int) -> None:
    """Where some of it is spilled, the device's use says nothing."""
    needs = least * 11 // 10 + len(mix.kinds) * CONTEXT
    there = sizes.free(f"bench-{mix.name}-alone", mix.memory)
    if needs > there:
        said = [f"{size / sizes.GIB:.1f} GiB" for size in (needs, there)]
        raise harness.NotRun(f"they need {said[0]} with their contexts, and {said[1]} of the device are free")


def _largest_use(mix: Mix, device: str, folder: str) -> tuple[int, int]:
    """Runs them at once; the device's largest use in bytes before they have settled, and after."""
    monitor = subprocess.Popen(
        harness.emulate(device, mix.memory, [sys.executable, "-m", "tests.bench.monitor"], timing=mix.timing),
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=harness.ROOT,
    )  # fmt: skip
    assert monitor.stdin and monitor.stdout and monitor.stdout.readline().strip() == "watching"
    jobs = [_job(mix, device, kind, folder) for kind in mix.kinds]
    used = []
    for said in ("settled", "done"):
        for job in jobs:
            assert job.stdout and job.stdout.readline().strip() == said, f"a job of {mix.name} has ended"
        monitor.stdin.write(f"{said}\n")
        monitor.stdin.flush()
        used.append(int(monitor.stdout.readline()))
    for process in (*jobs, monitor):
        process.communicate("")
    return used[0], used[1]


BASELINE = "sum of persistent + largest transient (peak live bytes, each alone)"


def _rows(mix: Mix) -> tuple[tuple[str, str], tuple[str, str]]:
    """Names and texts of its two figures."""
    text = f"device memory of {mix.text}"
    return (mix.name, f"{text}, settled"), (f"{mix.name}_whole", f"{text}, from start to end")


def _measure(mix: Mix, repeats: int) -> tuple[list[harness.Figure], dict[str, object]]:
    with harness.runtime_folder() as folder:
        alone = [_alone(mix, kind, folder) for kind in mix.kinds]
        least = sum(a["persistent"] for a in alone) + max(a["transient"] for a in alone)
        _must_fit(mix, least)
        used = [_largest_use(mix, f"bench-{mix.name}-{repeat}", folder) for repeat in range(repeats)]
    settled, whole = _rows(mix)
    figures = [
        harness.figure(*settled, [after / least for _, after in used], 1.03, BASELINE),
        harness.figure(*whole, [max(both) / least for both in used], 1.10, BASELINE),
    ]
    return figures, {"alone": alone, "least_bytes": least, "used_bytes": used}


def run(quick: bool) -> None:
    figures, missing, raw = [], [], {}
    for mix in (MIXES[0], MIXES[-1]) if quick else MIXES:
        try:
            measured, raw[mix.name] = _measure(mix, repeats=5)
        except harness.NotRun as why:
            missing += [harness.not_measured(*row, BASELINE, str(why)) for row in _rows(mix)]
            continue
        figures += measured
    harness.record("memory_of_jobs", figures, "emulated", {"not_measured": missing, **raw})
