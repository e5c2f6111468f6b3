"""Forks before it uses the GPU, as ``multiprocessing`` does; each child trains. Without a line of Hocket.

    forks_first.py --losses PREFIX

Child N writes PREFIX.N and says "child N held BYTES after 3 steps, BYTES at the end, steps=N".
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys

import torch
import torch._dynamo  # what the first step of an optimizer imports, in each child for seconds
from torch import nn

STEPS = 12


def train() -> tuple[list[float], list[int]]:
    torch.manual_seed(0)
    model = nn.Sequential(*(nn.Linear(512, 512) for _ in range(4))).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, foreach=False)
    losses, held = [], []
    for i in range(STEPS):
        rows = torch.randn(8, 512, generator=torch.Generator().manual_seed(i)).cuda()
        loss = nn.functional.mse_loss(model(rows), rows)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        held.append(torch.cuda.memory_allocated())
    return losses, held


def child(number: int, prefix: str) -> None:
    losses, held = train()
    with open(f"{prefix}.{number}", "w", encoding="ascii") as file:
        file.writelines(f"{loss.hex()}\n" for loss in losses)
    steps = 0
    if "hocket._native" in sys.modules:
        from hocket import _native

        steps = _native.info()["steps"]
    print(f"child {number} held {held[3]} after 3 steps, {held[-1]} at the end, steps={steps}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--losses", required=True)
    options = parser.parse_args()
    children = [multiprocessing.get_context("fork").Process(target=child, args=(i, options.losses)) for i in range(2)]
    for process in children:
        process.start()
    for process in children:
        process.join()
    sys.exit(max(abs(process.exitcode or 0) for process in children))


if __name__ == "__main__":
    main()
