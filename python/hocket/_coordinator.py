"""Asking the coordinator of this user: the only place that calls ``_control.control``. Needs no torch."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import select
from typing import Any

from hocket._job import load_control
from hocket.errors import CoordinatorUnavailable, HocketError


def ask(command: str, path: str = "", timeout_ms: int = 10_000, **arguments: Any) -> dict[str, Any]:
    """The answer of the coordinator at the socket ``path`` (default: this user's) to ``command``.

    Raises:
        CoordinatorUnavailable: none runs there.
        HocketError: its own sentence; or it is another user's, cannot be reached, hangs up, or does not answer in time:
            then one may well run.
        ValueError: what listens there does not speak Hocket's protocol.
    """
    control = load_control()
    return json.loads(control.control(path or str(control.socket_path()), command, json.dumps(arguments), timeout_ms))


def ask_if_it_runs(command: str, path: str = "", timeout_ms: int = 10_000, **arguments: Any) -> dict[str, Any] | None:
    """As :func:`ask`; None where no coordinator runs."""
    try:
        return ask(command, path, timeout_ms, **arguments)
    except CoordinatorUnavailable:
        return None


def end(patience: float = 10, **how: bool) -> None:
    """Ends the coordinator of this user, and returns when it is gone. ``how`` goes with the command ``stop``.

    Raises:
        CoordinatorUnavailable: none runs.
        HocketError: it refuses, in its own sentence; or it has not ended in ``patience`` seconds.
    """
    pid = ask("version")["pid"]
    with contextlib.ExitStack() as stack:
        process = _watch(pid, stack)
        ask("stop", **how)
        if process is not None and not select.select([process], [], [], patience)[0]:
            raise HocketError(
                f"the coordinator (pid {pid}) has not ended in {patience} s. Is it stopped? See `hocket doctor`."
            )


def _watch(pid: int, stack: contextlib.ExitStack) -> int | None:
    """A descriptor of its process; None where it is of another container, and the number is somebody else's here."""
    with contextlib.suppress(OSError):
        process = os.pidfd_open(pid)
        stack.callback(os.close, process)
        if pathlib.Path(f"/proc/{pid}/comm").read_text().strip() == "hocketd":
            return process
    return None
