"""A job that leaves a number all over its transient memory, or looks for it in memory that it has not written to.

secret.py fill|look MEBIBYTES: "filled", and it stays until its standard input ends; or "saw N", how often.
"""

from __future__ import annotations

import sys

import hocket

what, size = sys.argv[1], int(sys.argv[2]) << 18  # floats
hocket.join(name=what)
import torch  # noqa: E402

SECRET = 7.25

with hocket.step():
    memory = torch.empty(size, device="cuda")
    if what == "fill":
        memory.fill_(SECRET)
    else:
        print(f"saw {int((memory == SECRET).sum())}", flush=True)
    del memory
if what == "fill":
    print("filled", flush=True)
    sys.stdin.readline()
