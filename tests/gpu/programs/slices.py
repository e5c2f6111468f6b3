"""How long another process has the device before it is this one's turn again.

Says ``slices {"kernel_us", "breaks", "slice_us"}``. It keeps short kernels queued, with an event after each; where the
other one runs, two events are farther apart. Two of these run at once; each begins when a line comes. ``slice_us`` is
null where the other never ran in between.
"""

from __future__ import annotations

import collections
import statistics
from collections.abc import Sequence

KERNELS = 4000
KERNEL_US = 100
QUEUED = 100  # two events at least lie in what is queued, however long a slice lasts
KHZ = 1_980_000  # an H200's, where torch does not say


def slice_of(gaps_us: Sequence[float]) -> tuple[float, list[float]]:
    """A kernel's own time, and for how long others had the device each time that they did.

    >>> slice_of([100, 101, 2100, 100, 99, 2102, 100])
    (100, [2000, 2002])
    """
    kernel = statistics.median(gaps_us)
    return kernel, [gap - kernel for gap in gaps_us if gap > 3 * kernel]


def main() -> None:
    import torch

    from tests.gpu.programs import said

    cycles = int(KERNEL_US * 1e-3 * getattr(torch.cuda.get_device_properties(0), "clock_rate", KHZ))
    queued: collections.deque[torch.cuda.Event] = collections.deque()
    gaps: list[float] = []

    def kernel() -> None:
        torch.cuda._sleep(cycles)
        queued.append(torch.cuda.Event(enable_timing=True))
        queued[-1].record()

    def oldest() -> None:
        before = queued.popleft()
        queued[0].synchronize()
        gaps.append(1e3 * before.elapsed_time(queued[0]))

    kernel()
    torch.cuda.synchronize()
    said.line("ready")
    said.wait_for_go()
    for _ in range(KERNELS):
        kernel()
        if len(queued) > QUEUED:
            oldest()
    own, breaks = slice_of(gaps)
    said.data("slices", kernel_us=own, breaks=len(breaks), slice_us=statistics.median(breaks) if breaks else None)


if __name__ == "__main__":
    main()
