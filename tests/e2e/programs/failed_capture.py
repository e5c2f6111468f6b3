"""Captures a CUDA graph in its third step, in which it waits for the device: the capture fails. It catches that, does
five more steps, says "over" and ends at a line on standard input.

    failed_capture.py NAME
"""

from __future__ import annotations

import sys

import eager  # noqa: F401
import hocket
import torch

hocket.join(name=sys.argv[1])
x = torch.arange(1000, device="cuda")
print("built", flush=True)
failed = False
for number in hocket.steps(range(8)):
    if number == 2:
        graph = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.graph(graph):
                (x * 2).cpu()
        except RuntimeError as error:
            assert "captur" in str(error), error
            failed = True
        del graph
    assert (x * 2).sum().item() == 999000
assert failed
print("over", flush=True)
sys.stdin.readline()
