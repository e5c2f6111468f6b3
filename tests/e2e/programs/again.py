"""Starts itself anew, as programs do that recover or have a new configuration: another image of the same process.

    again.py TIMES

Each image holds 200 MiB of the device and prints "N PID SUM", N being how often it will start anew.
"""

from __future__ import annotations

import os
import sys

import hocket

hocket.join(name="a")
import torch  # noqa: E402

MIB = 1 << 18  # floats
left = int(sys.argv[1])
with hocket.step():
    total = int(torch.ones(200 * MIB, device="cuda").to("cpu").to(torch.int64).sum())
print(left, os.getpid(), total // MIB, flush=True)
if left > 0:
    os.execv(sys.executable, [sys.executable, sys.argv[0], str(left - 1)])
