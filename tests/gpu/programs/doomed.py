"""A job that will be killed while its kernels run: ``doomed.py --mib 64 --page FILE``.

It queues seconds of work in its step: a wait on the device, then a copy of a counter into FILE's page, which is pinned,
again and again. Whoever looks at the page sees how long the kernels go on. Lines: "built"; "done" if nobody killed it.
"""

from __future__ import annotations

import argparse

import hocket

parser = argparse.ArgumentParser()
parser.add_argument("--mib", type=int, default=64)
parser.add_argument("--page", required=True)
parser.add_argument("--pieces", type=int, default=300)
options = parser.parse_args()
hocket.join(name="doomed")
import torch  # noqa: E402

from tests.gpu.programs import said  # noqa: E402

PIECE = 20_000_000  # cycles, some 10 ms


def main() -> None:
    page = torch.from_file(options.page, shared=True, size=512, dtype=torch.int64)
    cudart = torch.cuda.cudart()
    assert cudart.cudaHostRegister(page.data_ptr(), page.nbytes, 0) == cudart.cudaError.success
    kept = torch.full((options.mib << 20,), 7, dtype=torch.uint8, device="cuda")
    counter = torch.zeros(1, dtype=torch.int64, device="cuda")
    torch.cuda.synchronize()
    said.line("built")
    with hocket.step():
        for _ in range(options.pieces):
            torch.cuda._sleep(PIECE)
            counter.add_(1)
            page[:1].copy_(counter, non_blocking=True)
        torch.cuda.synchronize()
    assert kept[0].item() == 7
    said.line("done")


if __name__ == "__main__":
    main()
