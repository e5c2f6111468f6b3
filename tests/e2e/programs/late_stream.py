"""Holds device memory and, when told, takes some that no allocator sees: PyTorch's side streams, made all together when
the first is asked for.

    late_stream.py NAME MIB before|in [DEVICE]

MIB are made before the first step, or in it.
Lines: "held" inside a step, where it uses its turn and waits for a line on standard input; then "made"; "kept
spilled_total=BYTES" in the next step, if the bytes are what they were.
"""

from __future__ import annotations

import sys

import hocket

hocket.join(name=sys.argv[1])
import in_use  # noqa: E402
import torch  # noqa: E402

torch.cuda.set_device(sys.argv[4] if len(sys.argv) > 4 else "cuda:0")


def build() -> torch.Tensor:
    return torch.arange(int(sys.argv[2]) << 18, dtype=torch.int32, device="cuda")


before = build() if sys.argv[3] == "before" else None
with hocket.step():
    numbers = build() if before is None else before
    torch.cuda.synchronize()
    print("held", flush=True)
    in_use.until_told()
    with torch.cuda.stream(torch.cuda.Stream()):
        last = numbers[-1].item()
    assert last == numbers.numel() - 1
    print("made", flush=True)
with hocket.step():
    assert torch.equal(numbers.cpu(), torch.arange(numbers.numel(), dtype=torch.int32))
    from hocket import _native

    print(f"kept spilled_total={_native.holdings()[0]['spilled_total']}", flush=True)
