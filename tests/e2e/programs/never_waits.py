"""A training that never waits for the device by itself: no value is read back. ``never_waits.py NAME [STEP]``.

In step STEP (the first is 0) it waits to be told to go on.
"""

from __future__ import annotations

import sys

import hocket

hocket.join(name=sys.argv[1])
import in_use  # noqa: E402
import torch  # noqa: E402

model = torch.nn.Sequential(torch.nn.Linear(256, 256), torch.nn.ReLU(), torch.nn.Linear(256, 8)).to("cuda")
optimizer = torch.optim.SGD(model.parameters(), 0.01)
print("built", flush=True)
sys.stdin.readline()
for step in hocket.steps(range(8), optimizer=optimizer):
    if sys.argv[2:] == [str(step)]:
        print("in step", flush=True)
        in_use.until_told()
    model(torch.ones(16, 256, device="cuda")).pow(2).mean().backward()
    optimizer.step()
print("done", flush=True)
