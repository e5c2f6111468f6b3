"""Steps that end in another order than they began, or on another thread. Says how many counted, and what failed."""

import threading

import hocket
import torch

hocket.join(name="a")
from hocket import _native  # noqa: E402

x = torch.ones(4, device="cuda")


def steps() -> int:
    return _native.info()["steps"]


for _ in zip(hocket.steps(range(3)), hocket.steps(range(3)), strict=True):
    x += 1
print(f"zipped {steps()}", flush=True)

mixed = iter(hocket.steps(range(9)))
next(mixed)
said = []


def go_on() -> None:
    try:
        next(mixed)
    except hocket.HocketError as error:
        said.append(str(error))


other = threading.Thread(target=go_on)
other.start()
other.join()
print(said[0].splitlines()[0], flush=True)
with hocket.step():  # the other one ends
    x += 1
print(f"then {steps()}", flush=True)
