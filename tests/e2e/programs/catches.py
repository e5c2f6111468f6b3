"""A step raises, the program catches it, and three more steps follow."""

import hocket
import torch

weight = torch.ones(4, device="cuda", requires_grad=True)
try:
    for _ in hocket.steps([1, 2]):
        (weight * torch.ones(5, device="cuda")).sum()
except RuntimeError:
    pass
for _ in hocket.steps(range(3)):
    weight.sum().backward()
from hocket import _native  # noqa: E402

print(f"steps={_native.info()['steps']}")
