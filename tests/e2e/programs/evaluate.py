"""Trains two steps, then evaluates outside of any step until it is told to end."""

import select
import sys

import hocket
import torch
from torch import nn

hocket.join(name="evaluating")
model = nn.Linear(128, 128).cuda()
optimizer = torch.optim.AdamW(model.parameters())
for x in hocket.steps([torch.randn(8, 128) for _ in range(2)], optimizer=optimizer):
    (model(x.cuda()) ** 2).mean().backward()
    optimizer.step()
print("evaluating", flush=True)
with torch.no_grad():
    while not select.select([sys.stdin], [], [], 0)[0]:
        model(torch.randn(8, 128).cuda()).sum().item()
