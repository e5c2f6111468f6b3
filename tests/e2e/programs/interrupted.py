"""A job that signals reach while it waits; afterwards it saves what it has, and says whether that is right.

    interrupted.py WHERE [--handler] [--no-step]

WHERE: ``allocation`` (outside of steps), ``away`` (its return) or ``restore`` (the begin of a step, while bytes come
back). Lines: "built", then, told to go on, "asking" and, once it has the signal, "interrupted", or "handling" and
"handled"; told to go on again, "saving" and "saved SUM steps=N". With ``--handler`` SIGTERM's handler saves, and the
wait goes on. What is saved is saved in a step of its own, or, with ``--no-step``, as programs do that know nothing of
Hocket.
"""

from __future__ import annotations

import contextlib
import signal
import sys
from types import FrameType

import hocket

hocket.join(name="a")
import torch  # noqa: E402

where = sys.argv[1]
MIB = 1 << 18  # floats
model = torch.ones(200 * MIB, device="cuda")


def steps() -> int:
    from hocket import _native

    return _native.info()["steps"]


def save(word: str) -> None:
    with contextlib.nullcontext() if "--no-step" in sys.argv else hocket.step():
        total = int(model.to("cpu").to(torch.int64).sum())
    print(f"{word} {total // MIB} steps={steps()}", flush=True)


def on_term(number: int, frame: FrameType | None) -> None:
    print("handling", flush=True)
    save("handled")


def wait() -> None:
    if where == "allocation":
        torch.ones(40 * MIB, device="cuda")
    elif where == "away":
        with hocket.away():
            print("away", flush=True)
            sys.stdin.readline()
            print("asking", flush=True)
    else:
        with hocket.step():
            print("never", flush=True)


def interrupt_while_a_step_begins() -> None:
    def look(frame: FrameType, event: str, argument: object) -> None:
        if event == "c_call" and getattr(argument, "__name__", "") == "begin_step":
            sys.setprofile(None)
            signal.setitimer(signal.ITIMER_REAL, 0.02)  # while 200 MiB go and 200 come

    signal.signal(signal.SIGALRM, signal.default_int_handler)
    sys.setprofile(look)


if "--handler" in sys.argv:
    signal.signal(signal.SIGTERM, on_term)
with hocket.step():
    pass
print("built", flush=True)
sys.stdin.readline()
if where == "restore":
    interrupt_while_a_step_begins()
if where != "away":
    print("asking", flush=True)
try:
    wait()
    print("had its turn", flush=True)
except KeyboardInterrupt:
    print("interrupted", flush=True)
sys.stdin.readline()
print("saving", flush=True)
save("saved")
