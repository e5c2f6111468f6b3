"""Trains a model whose two halves lie on two devices, of which each is first used in the midst of the first step.

    crosswise.py NAME FIRST SECOND

FIRST and SECOND are devices. Lines: "has" in the first step, when FIRST is in use, and it waits there for a line on
standard input; then "ended LOSS" of the last of four steps.
"""

from __future__ import annotations

import sys

import hocket

hocket.join(name=sys.argv[1])
import in_use  # noqa: E402
import torch  # noqa: E402
from torch import nn  # noqa: E402

first, second = sys.argv[2:]
torch.cuda.set_device(first)


class Halves(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.front = nn.Linear(64, 64).to(first)
        print("has", flush=True)
        in_use.until_told()
        self.back = nn.Linear(64, 1).to(second)

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        return self.back(torch.tanh(self.front(batch.to(first))).to(second))


model = None
for batch in hocket.steps([torch.full((8, 64), 0.1 * (step + 1)) for step in range(4)]):
    if model is None:
        model = Halves()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    optimizer.zero_grad()
    loss = model(batch).square().mean()
    loss.backward()
    optimizer.step()
print("ended", loss.item(), flush=True)
