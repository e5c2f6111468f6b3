"""The jobs of evicted.py: ``evicted_job.py stays|follows|pushes BYTES``; see harness.Worker.

``stays`` holds the bytes. A request runs one step and answers when its first kernel was queued (monotonic seconds), how
many bytes had come back for it, and how long a plain pinned copy of as many takes now.
``follows`` holds them as parameters and, twice as much, an optimizer's state, which follows (restore_in_order); it says
when its step's second part could begin, too: the optimizer's.
``pushes`` holds nothing between requests. In one it answers from its step; then it takes the bytes, so that the other's
must go, computes for a while, frees them, and answers.
"""

from __future__ import annotations

import json
import sys
import time

import hocket
import torch

from tests.bench import harness
from tests.bench.workload import KHZ

role, size = sys.argv[1], int(sys.argv[2])
hocket.join(name=role)
PIECE = 1 << 30
TURN_MS = 700  # what was moved is behind its addresses before that is over


def restored() -> int:
    from hocket import _native

    return _native.holdings()[0]["restored_total"]


def copy_seconds(amount: int, host: torch.Tensor, device: torch.Tensor) -> float:
    """A plain copy of so many bytes from pinned memory, as many at a time as ``device`` has."""
    torch.cuda.synchronize()
    begin = time.monotonic()
    while amount > 0:
        piece = min(amount, device.numel())
        device[:piece].copy_(host[:piece], non_blocking=True)
        amount -= piece
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


def follow() -> None:
    layers = 32  # a step needs memory for one of them beside
    weights = [torch.nn.Parameter(torch.empty(size // 12 // layers, device="cuda")) for _ in range(layers)]
    optimizer = torch.optim.Adam(weights, foreach=False)
    hocket.restore_in_order(optimizer)
    with hocket.step():
        for each in weights:
            each.grad = torch.empty(1, device="cuda").expand_as(each)
        optimizer.step()
        optimizer.zero_grad()
    torch.cuda.empty_cache()
    host = torch.empty(PIECE, dtype=torch.uint8, pin_memory=True)
    held = weights[0].detach().view(torch.uint8)
    harness.in_real_time()
    print(json.dumps({}), flush=True)
    for _ in sys.stdin:
        before = restored()
        with hocket.step():
            held[:1].add_(1)
            first_kernel = time.monotonic()
            optimizer.step()  # there are no gradients: it only waits
            second_part = time.monotonic()
            amount = restored() - before
            plain = copy_seconds(amount, host, held)
        told = {"first_kernel": first_kernel, "second_part": second_part, "restored": amount, "plain": plain}
        print(json.dumps(told), flush=True)


def push() -> None:
    torch.zeros(1, device="cuda")
    harness.in_real_time()
    print(json.dumps({}), flush=True)
    for _ in sys.stdin:
        with hocket.step():
            print(json.dumps({}), flush=True)
            taken = torch.empty(size, dtype=torch.uint8, device="cuda")
            torch.cuda._sleep(int(TURN_MS * getattr(torch.cuda.get_device_properties(0), "clock_rate", KHZ)))
            torch.cuda.synchronize()
            del taken
            torch.cuda.empty_cache()
        print(json.dumps({}), flush=True)


{"stays": stay, "follows": follow, "pushes": push}[role]()
