"""Computes without an optimizer or a loader, until the thread that says so has come and gone."""

import threading
import time

import torch

x = torch.ones(100, device="cuda")
patience = time.monotonic() + 60
seen = False
while time.monotonic() < patience:
    x = x + 1
    ticking = any(thread.name == "hocket-boundaries" for thread in threading.enumerate())
    if seen and not ticking:
        break
    seen = seen or ticking
