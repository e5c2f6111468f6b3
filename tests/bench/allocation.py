"""malloc + free and reserved memory, Hocket's allocator against PyTorch's native one, on recorded histories.

HOCKET_HISTORIES is a folder of histories (``NAME.txt.gz``; tests/allocator/bench/history.h says what is in one). Both
allocators replay the last steps of each, in two live processes, interleaved; no byte of device memory is touched.
"""

from __future__ import annotations

import gzip
import os
import pathlib
import tempfile

from tests.bench import harness

BASELINE = "PyTorch's native allocator, same history, same emulated GPU"


def compare(history: pathlib.Path, program: str, pairs: int) -> list[harness.Figure]:
    """Ratios hocket / native of settled steps: time of all calls, median and 99th percentile of one, reserved bytes."""
    name = history.name.split(".")[0]
    with tempfile.TemporaryDirectory() as folder:
        plain = pathlib.Path(folder) / f"{name}.txt"
        plain.write_bytes(gzip.decompress(history.read_bytes()))

        def worker(kind: str) -> harness.Worker:
            command = harness.emulate(f"bench-{name}-{kind}", "80GiB", [program, kind, str(plain)], timing=True)
            return harness.Worker(command, {"HOCKET_RUNTIME_DIR": folder}, pathlib.Path(folder) / f"{kind}.log")

        ratios: dict[str, list[float]] = {"ns": [], "p50": [], "p99": [], "reserved": [], "reserved_first": []}
        with worker("native") as native, worker("hocket") as hocket:
            for pair in range(pairs):
                order = (native, hocket) if pair % 2 else (hocket, native)
                answers = {w: w.ask(steps=3) for w in order}
                for key, values in ratios.items():
                    values.append(answers[hocket][key] / answers[native][key])
    texts = {
        "ns": ("time of all malloc and free", 0.8),
        "p50": ("malloc or free, median", 0.8),
        "p99": ("malloc or free, 99th percentile", 0.8),
        "reserved": ("peak reserved, settled", 0.95),
        "reserved_first": ("peak reserved, first steps", 1.0),
    }
    return [
        harness.figure(f"allocation_{key}_{name}", f"{name}: {text}", ratios[key], goal, BASELINE)
        for key, (text, goal) in texts.items()
    ]


def run(quick: bool) -> None:
    folder = os.environ.get("HOCKET_HISTORIES")
    if folder is None:
        raise RuntimeError("HOCKET_HISTORIES is not set: name a folder of recorded histories (NAME.txt.gz)")
    program = harness.binary("hocket_allocator_versus_native")
    figures = []
    for history in sorted(pathlib.Path(folder).glob("*.txt.gz")):
        figures += compare(history, program, pairs=6 if quick else 20)
    harness.record("allocation", figures)
