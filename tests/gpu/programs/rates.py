"""Measures what the emulated GPU's timing model takes as data (csrc/emulator/timing/cost.h): ``rates.py small|full``.

Each is the best of five: a rate is what the device can do, and whatever disturbs it only makes it slower.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import torch

from tests.gpu.programs import said

FULL = sys.argv[1] == "full"
BYTES = 1 << (30 if FULL else 22)
WIDTH = 8192 if FULL else 128


def best(work: Callable[[], object], times: int = 1) -> float:
    """Microseconds of one of ``times`` runs queued together, the best of five."""
    work()
    took = []
    for _ in range(5):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        for _ in range(times):
            work()
        torch.cuda.synchronize()
        took.append((time.perf_counter() - begin) * 1e6 / times)
    return min(took)


def product(dtype: torch.dtype) -> float:
    """Floating-point operations per microsecond of a large square product."""
    a, b = (torch.randn(WIDTH, WIDTH, device="cuda").to(dtype) for _ in range(2))
    return 2 * WIDTH**3 / best(lambda: torch.mm(a, b), 3)


def main() -> None:
    host = torch.empty(BYTES, dtype=torch.uint8, pin_memory=True)
    device, other = (torch.empty(BYTES, dtype=torch.uint8, device="cuda") for _ in range(2))
    one = torch.zeros(1, device="cuda")
    said.data(
        "rates",
        shortest_us=best(lambda: one.add_(1), 1000 if FULL else 10),
        memory_bytes_per_us=2 * BYTES / best(lambda: other.copy_(device), 5),
        copy_in_bytes_per_us=BYTES / best(lambda: device.copy_(host, non_blocking=True), 2),
        copy_out_bytes_per_us=BYTES / best(lambda: host.copy_(device, non_blocking=True), 2),
        operations_per_us_2_bytes=product(torch.bfloat16),
        operations_per_us_4_bytes=product(torch.float32),
        operations_per_us_8_bytes=product(torch.float64),
    )


if __name__ == "__main__":
    main()
