"""Rates of spills and restores, against plain pinned copies of the same bytes in the same process (spill_rate.cc), and
against others that move device memory to the host and back (against.py)."""

from __future__ import annotations

import json
import statistics
import subprocess

from tests.bench import against, harness, sizes
from tests.bench.sizes import CONTEXT, MIB

DEVICE, MEMORY = "bench-spill", "24GiB"
AGAINST_S = 10.0  # that a contender may take at a size


def run(quick: bool) -> None:
    every = (256, 1024, 4096, 16384)
    rounds, usual = harness.extent(quick, usual=(9, every), brief=(5, every), least=(5, every[:2]))
    there = sizes.free(DEVICE, MEMORY)

    def fitting(what: str, mib: tuple[int, ...], processes: int) -> list[int]:
        wanted = [size * MIB for size in mib]
        # Each has the bytes on the device; on the host our own, and the plain copies', or the other's.
        need = sizes.fitting(what, wanted, there, lambda size: processes * (size + CONTEXT), lambda size: 2 * size)
        return [size // MIB for size in need]

    chosen = fitting("spill_rate", usual, 1)
    program = [harness.binary("hocket_bench_spill"), str(rounds), *map(str, chosen)]
    # Timing mode: the link takes modelled time and no byte moves, so 16 GiB of host memory are never touched.
    command = harness.emulate(DEVICE, MEMORY, program, timing=True)
    command = harness.undisturbed(command)
    said = subprocess.run(command, capture_output=True, text=True, check=False, cwd=harness.ROOT)
    if said.returncode:
        raise RuntimeError(f"{' '.join(command)} ended with status {said.returncode}:\n{said.stderr[-2000:]}")
    measured = json.loads(said.stdout)
    figures = []
    for size in measured:
        gib = size["bytes"] / 2**30
        # A restore begins with the host's copies at their addresses, where the turn comes sooner than the job expects
        # it, or with what it has done to be ready for it.
        for way, ours, name, text in (
            ("out", "out", "spill_rate", "spill rate"),
            ("in", "in", "restore_rate", "restore rate"),
            ("in", "in_foreseen", "restore_rate_foreseen", "restore rate where the turn was foreseen"),
        ):
            ratios = [plain / taken for plain, taken in zip(size[f"plain_{way}"], size[ours], strict=True)]
            rate = size["bytes"] / statistics.median(size[f"plain_{way}"])
            figures.append(
                harness.figure(
                    f"{name}_{gib:g}_gib",
                    f"{text}, {gib:g} GiB",
                    ratios,
                    0.9,
                    f"plain pinned copies, {rate:.1f} GB/s",
                    at_least=True,
                )
            )
    about = {"nanoseconds": measured, "speaks_of": ["allocator", "csrc/emulator"]}
    harness.record("spill_rate", figures, extra=about)  # there, should the time be up in what follows
    beside = harness.extent(quick, usual=(1024, 4096), brief=(1024,), least=(256,))
    others = fitting("spill_rate, against others", beside, 2)
    found = against.compare(DEVICE, MEMORY, others, 5, AGAINST_S)
    about |= {"not_measured": found.not_measured, "against": found.raw}
    harness.record("spill_rate", figures + found.figures, extra=about)
