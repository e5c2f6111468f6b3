"""Holds --mib MiB and, when told, takes device memory that no allocator sees: side streams and a cuBLAS handle.

    late.py --mib 64 --name NAME

Lines: "held" in a step, where it uses its turn until a line comes; "made"; "kept" in the next step.
"""

from __future__ import annotations

import argparse

import hocket

parser = argparse.ArgumentParser()
parser.add_argument("--mib", type=int, required=True)
parser.add_argument("--name", required=True)
options = parser.parse_args()
hocket.join(name=options.name)
import torch  # noqa: E402

from tests.gpu.programs import said  # noqa: E402

with hocket.step():
    numbers = torch.arange(options.mib << 18, dtype=torch.int32, device="cuda")
    torch.cuda.synchronize()
    said.line("held")
    while not said.told_to_go(within=0.02):
        torch.empty(1, device="cuda")  # who does not use its turn loses it
    with torch.cuda.stream(torch.cuda.Stream()):
        product = torch.eye(64, device="cuda") @ torch.eye(64, device="cuda")
    torch.cuda.synchronize()
    assert torch.equal(product.cpu(), torch.eye(64))
    said.line("made")
with hocket.step():
    assert torch.equal(numbers.cpu(), torch.arange(numbers.numel(), dtype=torch.int32))
    said.line("kept")
