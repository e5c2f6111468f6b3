"""Starts CUDA, then imports hocket, as a notebook does; takes four steps."""

import torch

weight = torch.ones(1000, device="cuda", requires_grad=True)

import hocket  # noqa: E402

for _ in hocket.steps(range(4)):
    weight.sum().backward()
from hocket import _native  # noqa: E402

print(f"steps={_native.info()['steps']}")
