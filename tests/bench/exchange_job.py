"""A job of exchange.py: ``exchange_job.py NAME BYTES``; see harness.Worker.

A request ends the step that it is in and begins another; the answer comes when the first kernel of that was queued, and
says how many bytes had come back for it and how long that took since the other job's step had ended.
``{"plain": N}`` copies N bytes each way between the device and pinned memory instead, in the step that it is in.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import mmap
import os
import pathlib
import struct
import sys
import time

import hocket
import torch

from tests.bench import harness

name, size = sys.argv[1], int(sys.argv[2])
PIECE = min(1 << 28, size // 4)
ENDED = pathlib.Path(os.environ["HOCKET_RUNTIME_DIR"]) / "ended"


def restored() -> int:
    from hocket import _native

    return _native.holdings()[0]["restored_total"]


def copy_seconds(
    amount: int, hosts: list[torch.Tensor], device: torch.Tensor, streams: list[torch.cuda.Stream]
) -> float:
    """Plain copies of so many bytes each way at once, a piece at a time.

    The driver's own calls: through the runtime, an emulated GPU that computes nothing writes zeros to the host.
    """
    driver = ctypes.CDLL("libcuda.so.1")
    out, back = streams

    def queue(call: str, to: int, source: int, count: int, stream: torch.cuda.Stream) -> None:
        arguments = [ctypes.c_uint64(value) for value in (to, source, count, stream.cuda_stream)]
        if error := getattr(driver, call)(*arguments):
            raise RuntimeError(f"{call}: error {error}")

    torch.cuda.synchronize()
    begin = time.monotonic()
    for at in range(0, amount, PIECE):
        count = min(PIECE, amount - at)
        queue("cuMemcpyDtoHAsync_v2", hosts[0].data_ptr(), device.data_ptr(), count, out)
        queue("cuMemcpyHtoDAsync_v2", device[PIECE:].data_ptr(), hosts[1].data_ptr(), count, back)
    torch.cuda.synchronize()
    return time.monotonic() - begin


def ended() -> mmap.mmap:
    """When a job's step ended (seconds, a double; 0: none has): the jobs tell each other, in memory that they share, so
    that telling takes no time of what is measured."""
    with open(os.open(ENDED, os.O_RDWR | os.O_CREAT, 0o600), "r+b") as file:
        file.truncate(8)
        return mmap.mmap(file.fileno(), 8)


def main() -> None:
    hocket.join(name=name)
    shared = ended()
    held, before = None, 0
    torch.zeros(1, device="cuda").add_(1)  # the context and the kernel are there before the device is filled
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    hosts = [torch.empty(PIECE, dtype=torch.uint8, pin_memory=True) for _ in range(2)]
    streams = [torch.cuda.Stream() for _ in range(2)]  # before the device is filled, too
    print(json.dumps({}), flush=True)
    with contextlib.ExitStack() as present:
        for line in sys.stdin:
            request = json.loads(line)
            if "plain" in request:
                assert held is not None
                print(json.dumps({"plain": copy_seconds(request["plain"], hosts, held, streams)}), flush=True)
                continue
            if held is not None:
                before = restored()
                struct.pack_into("d", shared, 0, time.monotonic())
            present.close()
            present.enter_context(hocket.step())
            if held is None:
                held = torch.empty(size, dtype=torch.uint8, device="cuda")
                harness.in_real_time()
            held[:1].add_(1)
            first_kernel = time.monotonic()
            (last_ended,) = struct.unpack_from("d", shared)
            took = first_kernel - (last_ended or first_kernel)
            print(json.dumps({"restored": restored() - before, "took": took}), flush=True)


if __name__ == "__main__":
    main()
