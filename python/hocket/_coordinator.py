"""Asking the coordinator of this user: the only place that calls ``_control.control``. Needs no torch."""

from __future__ import annotations

import json
from typing import Any

from hocket._job import load_control
from hocket.errors import CoordinatorUnavailable


def ask(command: str, path: str = "", timeout_ms: int = 10_000, **arguments: Any) -> dict[str, Any]:
    """The answer of the coordinator at the socket ``path`` (default: this user's) to ``command``.

    Raises:
        CoordinatorUnavailable: none runs there.
        HocketError: its own sentence; or it is another user's, or does not answer in time.
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
