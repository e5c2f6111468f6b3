"""Ends while autograd's thread, in a backward, waits for the turn, which another job has.

What that thread drops when it is let through (a tensor of which only the graph is left) needs the interpreter's lock.
"""

import sys
import threading

import hocket
import torch

hocket.join(name="leaver")
x = torch.ones(1000, device="cuda", requires_grad=True)


def loss() -> torch.Tensor:
    kept = x.exp()
    return kept.sin().sum()  # its graph keeps `kept`


total = sum(loss() for _ in range(20))
print("built", flush=True)
sys.stdin.readline()
threading.Thread(target=total.backward, daemon=True).start()
print("started", flush=True)
sys.stdin.readline()
print("ends", flush=True)
