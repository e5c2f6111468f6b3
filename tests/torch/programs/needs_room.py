"""A job that needs most of the device for a step, and holds its turn until it is told to go on."""

import select
import sys

import hocket
import torch

with hocket.step():
    x = torch.ones(248 << 20, dtype=torch.uint8, device="cuda")
    print("holds", flush=True)
    while not select.select([sys.stdin], [], [], 0.02)[0]:
        with hocket.step():  # uses the turn, which others would have otherwise after some seconds
            pass
    del x
