"""A job that needs most of the device for a step, and holds its turn until it is told to go on."""

import sys

import hocket
import torch

with hocket.step():
    x = torch.ones(248 << 20, dtype=torch.uint8, device="cuda")
    print("holds", flush=True)
    sys.stdin.readline()
    del x
