"""What a Python process of ``hocket run`` or ``hocket emulate`` does at the end of ``import torch``.

Called by ``_hocket_start.autoload``, which turns any failure into one sentence: the program never breaks.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

from hocket import _job, _strays, hooks


def autoload() -> None:
    if os.environ.get("HOCKET_EMULATOR_NAME"):
        _emulate()
    if os.environ.get("HOCKET_RUN"):
        _run()


def _emulate() -> None:
    from hocket import emulator

    emulator.activate()


def _run() -> None:
    _job.activate()
    steps = _Steps(_job.require())
    tracker = hooks.install(steps)

    def joined(info: dict[str, Any]) -> None:
        _announce(info)
        if info["id"]:
            hooks.warn_without_boundaries(tracker, info["name"])

    steps.begun = _job.when_joined(joined)


class _Steps:
    """This process's steps; after the first has begun, ``begun`` is called: a job on the CPU joins with it."""

    def __init__(self, native: Any) -> None:
        self.begun: Callable[[], None]
        self.end_step = native.end_step
        self._native = native

    def inherited(self) -> bool:
        return bool(self._native.forked())

    def begin_step(self) -> None:
        self._begin_step()
        self.begun()
        self.begin_step = self._begin_step  # type: ignore[method-assign]

    def _begin_step(self) -> None:
        _strays.look(self._native)
        self._native.begin_step(True)


def _announce(info: dict[str, Any]) -> None:
    """The one line, from one process of a program: rank 0 where there are ranks."""
    if os.environ.get("LOCAL_RANK", "0") != "0":
        return
    if not info["id"]:  # no coordinator has given it one, nor a name; why, has been said
        line = f"hocket: no coordinator, so this program takes no turns on {info['device_name']}"
        return print(line, file=sys.stderr, flush=True)
    sharing = f"sharing with {info['sharing_with']}" if info["sharing_with"] else "alone so far"
    line = f"hocket: job {info['name']} on {info['device_name']}, {sharing}; {hooks.HOW}"
    print(line, file=sys.stderr, flush=True)
