"""Work on side streams that is still queued when a step ends, and memory that side streams still use when it is freed.

    streams.py --rounds 4 [--mib 8]

With HOCKET_FORCE_SPILL=1 every boundary moves everything: whoever does not wait for all streams, or hands a recorded
block out too early, gives wrong sums. Ends with "right".
"""

from __future__ import annotations

import argparse

import hocket

parser = argparse.ArgumentParser()
parser.add_argument("--rounds", type=int, default=4)
parser.add_argument("--mib", type=int, default=8)
options = parser.parse_args()
hocket.join(name="streams")
import torch  # noqa: E402

from tests.gpu.programs import said  # noqa: E402

COUNT = options.mib << 18  # int32
BUSY = 20_000_000  # cycles: some 10 ms, so that what follows is still queued when the host has gone on


def recorded(side: torch.cuda.Stream, value: int, host: torch.Tensor) -> None:
    """A block is freed while the side stream has yet to read it, and another of its size is written at once."""
    used = torch.full((COUNT,), value, dtype=torch.int32, device="cuda")
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        torch.cuda._sleep(BUSY)
        host.copy_(used, non_blocking=True)
    used.record_stream(side)
    del used
    torch.full((COUNT,), -1, dtype=torch.int32, device="cuda")


def main() -> None:
    sides = [torch.cuda.Stream() for _ in range(3)]
    host = torch.zeros(COUNT, dtype=torch.int32, pin_memory=True)
    kept = [torch.zeros(COUNT, dtype=torch.int32, device="cuda") for _ in sides]
    for i in hocket.steps(range(options.rounds)):
        for number, (side, tensor) in enumerate(zip(sides, kept, strict=True)):
            torch.cuda.current_stream().wait_stream(side)
            expected = sum(range(i)) * (number + 1)
            assert bool((tensor == expected).all()), f"step {i}: side stream {number} lost work of the step before"
        if i:
            assert bool((host == i).all()), f"step {i}: a recorded block was handed out too early"
        recorded(sides[0], i + 1, host)
        for number, (side, tensor) in enumerate(zip(sides, kept, strict=True)):
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                torch.cuda._sleep(BUSY)
                tensor.add_(i * (number + 1))
        # The step ends here, with all of it still queued.
    torch.cuda.synchronize()
    said.holdings()
    said.line("right")


if __name__ == "__main__":
    main()
