"""The histories of allocations that `allocation` and `survivors` replay, and where each was recorded.

``scripts/gpu-check`` records those of its trainings on a GPU, and ``scripts/bench --adopt`` puts them beside the
results, as ``histories-<device>.tar.gz``. The others are recorded with PyTorch's native allocator on an emulated GPU of
80 GiB that computes nothing: sizes and order are those of a GPU, but for what cuDNN and fused attention ask for there.

Where a folder of traces is given (``--workloads``), what it has in ``allocation-traces`` comes beside them, as
``trace-NAME``: other trainings, among them one of several micro-batches a step and one that carries its state from step
to step.

HOCKET_HISTORIES names a folder of others, which are replayed instead.

A history is ``NAME.txt.gz``; tests/allocator/bench/history.h says what is in one. NAME is a training of more_jobs.py,
with ``-untidy`` where its gradients and outputs live until the next step replaces them.
"""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import pathlib
import re
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Collection, Iterator

from tests.bench import harness

FILE = re.compile(r"([a-z0-9-]+)\.txt\.gz")
UNTIDY = ("gpt", "resnet", "bert", "unet")  # recorded a second time, untidy
MEMORY = "80GiB"
ELSEWHERE = "elsewhere"  # where a history that does not say it was recorded


def unpack(results: pathlib.Path, folder: pathlib.Path) -> dict[str, str]:
    """Puts those that GPUs have recorded into ``folder``: for each NAME the GPU, as its archive is called.

    Where several have recorded the same training, the first of the archives serves.
    """
    recorded_on: dict[str, str] = {}
    for archive in sorted(results.glob("histories-*.tar.gz")):
        device = archive.name.removeprefix("histories-").removesuffix(".tar.gz")
        with tarfile.open(archive) as tar:
            for member in tar:
                found = FILE.fullmatch(member.name)
                file = tar.extractfile(member) if found else None
                if found and file and found[1] not in recorded_on:
                    (folder / member.name).write_bytes(file.read())
                    recorded_on[found[1]] = device
    return recorded_on


def recordings() -> dict[str, tuple[str, ...]]:
    """How each history is made: its NAME -> what tests/gpu/programs/history.py is told."""
    from tests.bench.more_jobs import KINDS  # imports torch

    tidy = {kind: ("--kind", kind) for kind in KINDS}
    return tidy | {f"{kind}-untidy": ("--kind", kind, "--untidy") for kind in UNTIDY}


def record(folder: pathlib.Path, names: Collection[str]) -> None:
    """``NAME.txt.gz`` of each."""
    made = recordings()
    for name in names:
        program = [sys.executable, "-m", "tests.gpu.programs.history", *made[name], "--size", "full"]
        command = harness.emulate("bench-histories", MEMORY, [*program, str(folder / f"{name}.txt.gz")], timing=True)
        subprocess.run(command, check=True, cwd=harness.ROOT, stdout=subprocess.DEVNULL)


def take_traces(folder: pathlib.Path) -> dict[str, str]:
    """Puts the given folder's traces into ``folder``; for each NAME where it was recorded."""
    given = harness.PLACE.workloads
    taken: dict[str, str] = {}
    for trace in sorted((given / "allocation-traces").glob("*.txt.gz")) if given else []:
        name = f"trace-{name_of(trace).replace('_', '-')}"
        (folder / f"{name}.txt.gz").write_bytes(trace.read_bytes())
        taken[name] = recorded_on(trace)
    return taken


def gather(folder: pathlib.Path, names: Collection[str] = ()) -> dict[str, str]:
    """Those of these names (none: all, and the traces) into ``folder``; for each NAME that was not recorded on the
    device that is measured, where it was."""
    elsewhere = unpack(harness.RESULTS, folder) if harness.PLACE.emulated else {}
    record(folder, [name for name in names or recordings() if name not in elsewhere])
    return elsewhere if names else elsewhere | take_traces(folder)


@contextlib.contextmanager
def at_hand(names: Collection[str] = ()) -> Iterator[dict[pathlib.Path, str]]:
    """The histories to replay, of these names (none: all), and where each was recorded."""
    given = os.environ.get("HOCKET_HISTORIES")
    with tempfile.TemporaryDirectory() as made:
        folder = pathlib.Path(given or made)
        elsewhere = {} if given else gather(folder, names)
        paths = chosen(folder, names)
        if not paths:
            raise RuntimeError(f"{folder} has no history: no file is called NAME.txt.gz")
        yield {
            path: recorded_on(path) if given else elsewhere.get(name_of(path), harness.device_name()) for path in paths
        }


def chosen(folder: pathlib.Path, names: Collection[str]) -> list[pathlib.Path]:
    """The folder's histories of these names, or all where it has none of them."""
    every = sorted(folder.glob("*.txt.gz"))
    return [history for history in every if name_of(history) in names] or every


def name_of(history: pathlib.Path) -> str:
    return history.name.split(".")[0]


def recorded_on(history: pathlib.Path) -> str:
    """As its first line says; ``ELSEWHERE`` where it does not."""
    with gzip.open(history, "rt") as lines:
        first = lines.readline()
    said = json.loads(first[1:]) if first.startswith("# {") else {}
    return said.get("device", ELSEWHERE)


def peak(history: pathlib.Path) -> int:
    """Bytes alive at most."""
    most, now = 0, 0
    with gzip.open(history, "rt") as lines:
        for line in lines:
            if not line.startswith("#"):
                now += int(line.split()[1])
                most = max(most, now)
    return most
