"""Ends while one of its threads waits for the turn, which another job has."""

import sys
import threading

import hocket
import torch

hocket.join(name="leaver")
torch.cuda.init()


def wait() -> None:
    with hocket.step():
        print("in a step", flush=True)


threading.Thread(target=wait, daemon=True).start()
print("started", flush=True)
sys.stdin.readline()
print("ends", flush=True)
