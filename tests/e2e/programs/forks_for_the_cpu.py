"""Forks children that train on the CPU, and waits for them. Without a line of Hocket.

forks_for_the_cpu.py started     CUDA has started before, without a tensor on the GPU
forks_for_the_cpu.py in-a-step   in a step of a training on the CPU, after some others
"""

from __future__ import annotations

import multiprocessing
import sys

import torch
from torch import nn
from torch.utils.data import DataLoader


def train(loader: DataLoader | None = None) -> None:
    model = nn.Linear(16, 16)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for i, _rows in enumerate(loader or range(5)):
        for parameter in model.parameters():  # no autograd: PyTorch refuses it in a child of one that has used it
            parameter.grad = torch.ones_like(parameter)
        optimizer.step()
        optimizer.zero_grad()
        if loader is not None and i == 3:
            wait_for_children()


def wait_for_children() -> None:
    children = [multiprocessing.get_context("fork").Process(target=train) for _ in range(2)]
    for child in children:
        child.start()
    for child in children:
        child.join()
        if child.exitcode != 0:
            sys.exit(f"a child ended with {child.exitcode}")


if sys.argv[1] == "started":
    torch.cuda.init()
    wait_for_children()
else:
    train(DataLoader(torch.randn(40, 16), batch_size=4))
print("done", flush=True)
