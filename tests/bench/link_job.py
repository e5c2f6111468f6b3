"""A job of link.py: ``link_job.py NAME BYTES COPIED``; see harness.Worker.

It holds BYTES and does steps for the ``seconds`` that a request names. Each copies COPIED bytes to the device from
pinned memory, as batches come, and then computes. The answer says how long each took, without what comes before it.
"""

from __future__ import annotations

import ctypes
import json
import sys
import time

import hocket
import torch

from tests.bench import harness

name, size, copied = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
PIECE = 1 << 27
SIDE, PRODUCTS = 2048, 20  # some 5 ms of an H200's float32


def main() -> None:
    hocket.join(name=name)
    driver = ctypes.CDLL("libcuda.so.1")
    held = batch = matrix = None
    host = torch.empty(PIECE, dtype=torch.uint8, pin_memory=True)

    warm = torch.zeros(SIDE, SIDE, device="cuda")
    torch.mm(warm, warm)  # the context and the kernels are there before the device is filled
    torch.cuda.synchronize()
    del warm
    torch.cuda.empty_cache()
    print(json.dumps({}), flush=True)

    def copy() -> None:
        # The driver's own call: through the runtime, an emulated GPU that computes nothing writes zeros.
        arguments = [ctypes.c_uint64(value) for value in (batch.data_ptr(), host.data_ptr(), PIECE)]
        stream = ctypes.c_uint64(torch.cuda.current_stream().cuda_stream)
        if error := driver.cuMemcpyHtoDAsync_v2(*arguments, stream):
            raise RuntimeError(f"cuMemcpyHtoDAsync: error {error}")

    def request() -> str:
        with hocket.away():  # so that its memory can be moved meanwhile
            return sys.stdin.readline()

    while line := request():
        until = time.monotonic() + json.loads(line)["seconds"]
        steps = []
        while time.monotonic() < until or not steps:
            with hocket.step():
                if held is None:
                    held = torch.empty(size, dtype=torch.uint8, device="cuda")
                    batch = torch.empty(PIECE, dtype=torch.uint8, device="cuda")
                    matrix = torch.empty(SIDE, SIDE, device="cuda")
                    harness.in_real_time()
                begin = time.monotonic()
                for _ in range(copied // PIECE):
                    copy()
                for _ in range(PRODUCTS):
                    torch.mm(matrix, matrix)
                torch.cuda.synchronize()
                steps.append(time.monotonic() - begin)
        print(json.dumps({"steps": steps}), flush=True)


if __name__ == "__main__":
    main()
