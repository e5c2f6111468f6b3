"""A training in whose fourth step an assertion on the device fails; what PyTorch says of it is the program's affair.

    failed_kernel.py NAME MIB [--seen] [--catch]

``--seen``: the step waits for the device; otherwise the next one finds out. ``--catch``: the error of each step is
caught and the steps go on, to the last of eight; then it says "caught N" and ends at a line on standard input. It holds
MIB more than it needs.
"""

from __future__ import annotations

import sys

import eager  # noqa: F401
import hocket
import torch
from torch import nn

hocket.join(name=sys.argv[1])
model = nn.Sequential(*[nn.Linear(256, 256) for _ in range(2)]).to("cuda")
optimizer = torch.optim.AdamW(model.parameters())
ballast = torch.zeros(int(sys.argv[2]) << 20, dtype=torch.uint8, device="cuda")
print("built", flush=True)


def step(number: int) -> None:
    model(torch.ones(8, 256, device="cuda")).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
    if number == 3:
        torch._assert_async(torch.zeros(1, device="cuda"))
        if "--seen" in sys.argv:
            torch.cuda.synchronize()


caught = 0
for number in hocket.steps(range(8)):
    try:
        step(number)
    except RuntimeError as error:
        if "--catch" not in sys.argv:
            raise
        assert "device-side assert" in str(error), error
        caught += 1
print(f"caught {caught}", flush=True)
sys.stdin.readline()
