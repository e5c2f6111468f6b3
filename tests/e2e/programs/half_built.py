"""Builds half of a model that needs most of the device, says so and waits if told to, builds the rest and trains.

Only the last layer learns, so that the model itself is what needs the memory.
"""

import argparse
import sys

import eager  # noqa: F401
import hocket
import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--name", default="half-built")
parser.add_argument("--losses")
parser.add_argument("--hold", action="store_true")
options = parser.parse_args()

hocket.join(name=options.name)
torch.manual_seed(0)
halves = [nn.Sequential(*(nn.Linear(744, 744) for _ in range(34))) for _ in range(2)]  # 75 MB each
halves[0].cuda()
print("half built", flush=True)
if options.hold:
    sys.stdin.readline()
halves[1].cuda()
model = nn.Sequential(*halves).requires_grad_(False)
model[-1][-1].requires_grad_(True)
optimizer = torch.optim.AdamW(model[-1][-1].parameters(), lr=1e-3, foreach=False)
losses = []
for x in hocket.steps([torch.randn(8, 744) for _ in range(4)], optimizer=optimizer):
    loss = (model(x.cuda()) ** 2).mean()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
with open(options.losses, "w", encoding="ascii") as file:
    file.writelines(f"{loss.hex()}\n" for loss in losses)
from hocket import _native  # noqa: E402

print(f"done spilled_total={_native.holdings()[0]['spilled_total']}", flush=True)
