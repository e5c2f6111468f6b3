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

import dataclasses
import functools
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


ALONE = "bench-memory-alone"


def _job(mix: Mix, device: str, kind: str, folder: str, *more: str) -> subprocess.Popen[str]:
    program = [sys.executable, "-m", "tests.bench.memory_job", kind, str(mix.steps), *more]
    command = harness.emulate(device, mix.memory, program, timing=mix.timing)
    environment = {**os.environ, "HOCKET_RUNTIME_DIR": folder, "HOCKET_POLICY": "round-robin"}
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, env=environment, text=True, cwd=harness.ROOT)


@functools.cache
def _alone(mix: Mix, kind: str, *more: str) -> dict[str, int]:
    with harness.runtime_folder() as folder:
        job = _job(mix, ALONE, kind, folder, *more)
        out, _ = job.communicate()
    if job.returncode:
        there = sizes.in_words(sizes.free(ALONE, mix.memory) // sizes.MIB * sizes.MIB)
        raise harness.NotRun(f"{kind} alone ended with status {job.returncode}, with {there} of the device free")
    return json.loads(out.splitlines()[-1])


def _must_fit(mix: Mix, least: int) -> None:
    """Where some of it is spilled, the device's use says nothing."""
    needs = least * 11 // 10 + len(mix.kinds) * CONTEXT
    there = sizes.free(ALONE, mix.memory)
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
NATIVE = "plain torch: what PyTorch's native allocator reserves, each alone, summed"


def _rows(mix: Mix) -> list[tuple[str, str, str]]:
    """Names, texts and baselines of its figures."""
    text = f"device memory of {mix.text}"
    return [
        (mix.name, f"{text}, settled", BASELINE),
        (f"{mix.name}_whole", f"{text}, from start to end", BASELINE),
        (f"{mix.name}_native", f"{text}, from start to end", NATIVE),
    ]


def _measure(mix: Mix, repeats: int) -> tuple[list[harness.Figure], dict[str, object]]:
    same = dataclasses.replace(mix, name="alone", text="", kinds=())  # in other mixes, too
    alone = [_alone(same, kind) for kind in mix.kinds]
    native = [_alone(same, kind, "native") for kind in mix.kinds]
    least = sum(a["persistent"] for a in alone) + max(a["transient"] for a in alone)
    _must_fit(mix, least)
    with harness.runtime_folder() as folder:
        used = [_largest_use(mix, f"bench-{mix.name}-{repeat}", folder) for repeat in range(repeats)]
    reserved = sum(each["reserved"] for each in native)
    ratios = [
        ([after / least for _, after in used], 1.03),
        ([max(both) / least for both in used], 1.10),
        ([max(both) / reserved for both in used], 1.0),
    ]
    figures = [
        harness.figure(name, text, samples, goal, baseline)
        for (name, text, baseline), (samples, goal) in zip(_rows(mix), ratios, strict=True)
    ]
    return figures, {"alone": alone, "native": native, "least_bytes": least, "used_bytes": used}


def run(quick: bool) -> None:
    figures, missing, raw = [], [], {}
    for mix in harness.extent(quick, usual=MIXES, brief=MIXES[:1], least=(MIXES[0], MIXES[-1])):
        try:
            measured, raw[mix.name] = _measure(mix, repeats=5)
        except harness.NotRun as why:
            missing += [harness.not_measured(*row, str(why)) for row in _rows(mix)]
            continue
        figures += measured
    harness.record("memory_of_jobs", figures, "emulated", {"not_measured": missing, **raw})
