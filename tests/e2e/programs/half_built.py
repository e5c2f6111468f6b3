"""Builds half of a model that needs most of the device, says so and waits, builds the rest and trains."""

import argparse
import sys

import hocket
import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--name", default="half-built")
parser.add_argument("--losses")
options = parser.parse_args()

hocket.join(name=options.name)
torch.manual_seed(0)
halves = [nn.Sequential(*(nn.Linear(744, 744) for _ in range(9))) for _ in range(2)]
halves[0].cuda()
print("half built", flush=True)
sys.stdin.readline()
halves[1].cuda()
model = nn.Sequential(*halves)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, foreach=False)
losses = []
for x in hocket.steps([torch.randn(8, 744) for _ in range(4)], optimizer=optimizer):
    loss = (model(x.cuda()) ** 2).mean()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
with open(options.losses, "w", encoding="ascii") as file:
    file.writelines(f"{loss.hex()}\n" for loss in losses)
