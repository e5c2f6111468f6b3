"""The two jobs of evicted.py: ``evicted_job.py stays|pushes BYTES``; see harness.Worker.

``stays`` holds the bytes. A request runs one step and answers when its first kernel was queued (monotonic seconds), how
many bytes had come back for it, and how long a plain pinned copy of as many takes now.
``pushes`` holds nothing between requests. In one it answers from its step; then it takes the bytes, so that the other's
must go, frees them, and answers when its step had ended.
"""

from __future__ import annotations

import json
import sys
import time

import hocket
import torch

from tests.bench import harness

role, size = sys.argv[1], int(sys.argv[2])
hocket.join(name=role)
PIECE = 1 << 30


def restored() -> int:
    from hocket import _native

    return _native.holdings()[0]["restored_total"]


def copy_seconds(amount: int, host: torch.Tensor, device: torch.Tensor) -> float:
    """A plain copy of so many bytes from pinned memory, a GiB at a time."""
    torch.cuda.synchronize()
    begin = time.monotonic()
    for _ in range(amount // PIECE):
        device.copy_(host, non_blocking=True)
    device[: amount % PIECE].copy_(host[: amount % PIECE], non_blocking=True)
    torch.cuda.synchronize()
    return time.monotonic() - begin


def stay() -> None:
    held = torch.empty(size, dtype=torch.uint8, device="cuda")
    host = torch.empty(PIECE, dtype=torch.uint8, pin_memory=True)
    harness.in_real_time()
    print(json.dumps({}), flush=True)
    for _ in sys.stdin:
        before = restored()
        with hocket.step():
            held[:1].add_(1)
            first_kernel = time.monotonic()
            amount = restored() - before
            plain = copy_seconds(amount, host, held[:PIECE])
        print(json.dumps({"first_kernel": first_kernel, "restored": amount, "plain": plain}), flush=True)


def push() -> None:
    torch.zeros(1, device="cuda")
    harness.in_real_time()
    print(json.dumps({}), flush=True)
    for _ in sys.stdin:
        with hocket.step():
            print(json.dumps({}), flush=True)
            taken = torch.empty(size, dtype=torch.uint8, device="cuda")
            del taken
            torch.cuda.empty_cache()
        print(json.dumps({"ended": time.monotonic()}), flush=True)


{"stays": stay, "pushes": push}[role]()
