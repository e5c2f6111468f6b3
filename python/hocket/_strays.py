"""Threads that may use the GPU though Hocket has not seen them: they have made no step and allocated nothing on it yet.

PyTorch's operators are watched on every thread that Python starts from ``watch()`` on, and on the one that calls it,
until it is seen: one that uses what others have allocated waits until that is there, and holds it there (csrc/torch/
own_code.h). What is left are strays: threads that were there before, that no ``threading.Thread`` has started, or that
go past PyTorch's operators.

While a job's memory is on the host a stray finds it there, slowly, as far as that has been prepared: behind the
copying, in a few hundred milliseconds for 10 GB. Where there may be strays it is prepared with the copying, which
takes twice as long (docs/decisions/0020). So it matters which threads run. A program that says no steps is taken to
have some.
"""

from __future__ import annotations

import functools
import threading
from typing import Any

# Of a thread whose operators are watched.
_WATCHED = "_hocket_watches"

# Whose threads never touch tensors on a GPU. (A DataLoader's thread pins memory of the host.)
HARMLESS = ("hocket", "multiprocessing.queues", "torch.utils.data", "torch.utils.tensorboard", "torch._inductor",
            "tensorboard", "tqdm", "wandb",
            "IPython", "ipykernel", "zmq", "_pydevd_bundle", "debugpy")  # fmt: skip

_lock = threading.Lock()
_seen: list[threading.Thread] = []  # when it was looked last


# What threading.enumerate() goes by, without its lock, which is two thirds of what it costs. None: not in this Python.
_running: dict[int, threading.Thread] | None = getattr(threading, "_active", None)


def watch(native: Any) -> None:
    """From now on. Once per process. Where this Python starts its threads in another way, only on this thread."""
    native.watch_visitor()
    setattr(threading.current_thread(), _WATCHED, True)
    run = getattr(threading.Thread, "_bootstrap_inner", None)
    if run is None:
        return

    @functools.wraps(run)
    def run_watched(thread: threading.Thread) -> None:
        native.watch_visitor()
        setattr(thread, _WATCHED, True)
        run(thread)

    threading.Thread._bootstrap_inner = run_watched  # type: ignore[attr-defined]


def look(native: Any) -> None:
    """To be called at each begin of a step. Costs less than half a microsecond while no thread comes or goes."""
    if _threads() != _seen:
        _look_again(native)


def _threads() -> list[threading.Thread]:
    try:
        return threading.enumerate() if _running is None else list(_running.values())
    except RuntimeError:  # a thread came while they were listed (a collection of garbage can start one)
        return threading.enumerate()


def _look_again(native: Any) -> None:
    global _seen
    with _lock:
        _seen = _threads()
        mine = threading.current_thread()
        native.expect_strays(any(thread is not mine and not _is_harmless(thread) for thread in _seen))


def _is_harmless(thread: threading.Thread) -> bool:
    if hasattr(thread, _WATCHED):
        return True
    target = getattr(thread, "_target", None)
    places = (type(thread).__module__, getattr(target, "__module__", None) or "")
    return any(place == name or place.startswith(name + ".") for place in places for name in HARMLESS)
