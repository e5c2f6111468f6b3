"""Can this device do it? ``can.py WHAT``: exit status 0, or a sentence on standard error and 1.

graphs     capture work in a CUDA graph and get the right values from a replay
compile    torch.compile compiles, and what it compiled gives the right values
"""

from __future__ import annotations

import sys

import torch


def graphs() -> None:
    x = torch.ones(8, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = x + 1
    x.fill_(5)
    graph.replay()
    assert y.tolist() == [6.0] * 8, f"the replay gave {y.tolist()}"


def compile() -> None:
    assert torch.compile(lambda x: torch.sin(x) + 1)(torch.zeros(8, device="cuda")).tolist() == [1.0] * 8


try:
    {"graphs": graphs, "compile": compile}[sys.argv[1]]()
except Exception as error:
    sys.exit(str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__)
