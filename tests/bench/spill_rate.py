"""Rates of spills and restores, against plain pinned copies of the same bytes in the same process (spill_rate.cc)."""

from __future__ import annotations

import json
import statistics
import subprocess

from tests.bench import harness


def run(quick: bool) -> None:
    rounds, sizes = (5, (256, 1024)) if quick else (9, (256, 1024, 4096, 16384))
    program = [harness.binary("hocket_bench_spill"), str(rounds), *map(str, sizes)]
    # Timing mode: the link takes modelled time and no byte moves, so 16 GiB of host memory are never touched.
    command = harness.emulate("bench-spill", "24GiB", program, timing=True)
    command = harness.undisturbed(command)
    said = subprocess.run(command, capture_output=True, text=True, check=False, cwd=harness.ROOT)
    if said.returncode:
        raise RuntimeError(f"{' '.join(command)} ended with status {said.returncode}:\n{said.stderr[-2000:]}")
    measured = json.loads(said.stdout)
    figures = []
    for size in measured:
        gib = size["bytes"] / 2**30
        for way, text in (("out", "spill"), ("in", "restore")):
            ratios = [plain / ours for plain, ours in zip(size[f"plain_{way}"], size[way], strict=True)]
            rate = size["bytes"] / statistics.median(size[f"plain_{way}"])
            figures.append(
                harness.figure(
                    f"{text}_rate_{gib:g}_gib",
                    f"{text} rate, {gib:g} GiB",
                    ratios,
                    0.9,
                    f"plain pinned copies, {rate:.1f} GB/s",
                    at_least=True,
                )
            )
    harness.record(
        "spill_rate",
        figures,
        extra={
            "nanoseconds": measured,
            "speaks_of": ["allocator", "csrc/emulator"],
        },
    )
