"""What a Python process of ``hocket run`` or ``hocket emulate`` does at the end of ``import torch``.

Called by ``_hocket_start.autoload``, which turns any failure into one sentence: the program never breaks.
"""

from __future__ import annotations

import os
import sys
from typing import Any

from hocket import _job, hooks


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
    tracker = hooks.install(_job.JoiningSteps())
    _job.on_join(_announce)
    _job.on_join(lambda info: hooks.warn_without_boundaries(tracker, info["name"]))


def _announce(info: dict[str, Any]) -> None:
    """The one line, from one process of a program: rank 0 where there are ranks."""
    if os.environ.get("LOCAL_RANK", "0") != "0":
        return
    sharing = f"sharing with {info['sharing_with']}" if info["sharing_with"] else "alone so far"
    line = f"hocket: job {info['name']} on {info['device_name']}, {sharing}; {hooks.HOW}"
    print(line, file=sys.stderr, flush=True)
