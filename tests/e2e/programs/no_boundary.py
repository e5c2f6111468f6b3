"""Computes on the device without an optimizer or a loader, until the sentence about it must have come."""

import threading
import time

import torch

x = torch.ones(100, device="cuda")
end = time.monotonic() + 30
while time.monotonic() < end and any(isinstance(t, threading.Timer) for t in threading.enumerate()):
    x = x + 1
