"""Waiting in the midst of a step that uses its turn all the while.

Who does not use it for some seconds while others wait gives it to them (docs/decisions/0033): a program that only
waited for its test would lose its turn on a slow machine, and the test its scene.
"""

from __future__ import annotations

import os
import select

import torch

_BETWEEN_USES = 0.02  # seconds; the shortest time after which a step counts as unused is one


def until_readable(descriptor: int) -> None:
    """Uses the turn until there is something to read, or nobody left to write it."""
    while not select.select([descriptor], [], [], _BETWEEN_USES)[0]:
        torch.empty(1, device="cuda")  # an allocation is a use, and cannot be overlooked as work of the device can


def until_told() -> None:
    """Until a line comes on standard input. What is read from it here is no more than that line."""
    until_readable(0)
    while os.read(0, 1) not in (b"\n", b""):
        pass
