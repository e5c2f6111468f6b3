"""Asking the coordinator, and saying what it answered."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import click

from hocket import _config, _coordinator
from hocket._job import load_control
from hocket.errors import NotBuilt


def control() -> Any:
    """The extension that knows no torch; exit status 1 with a sentence where it is missing."""
    try:
        return load_control()
    except NotBuilt as error:
        raise click.ClickException(str(error)) from None


def socket_path() -> str:
    return str(control().socket_path())


def ask(command: str, **arguments: Any) -> dict[str, Any]:
    """The coordinator's answer to ``command``; exit status 1 with its own sentence where it refuses or is absent."""
    with sentences():
        return _coordinator.ask(command, **arguments)


def ask_if_it_runs(command: str) -> dict[str, Any] | None:
    """As :func:`ask`; None where no coordinator runs: nobody shares anything, which is no error."""
    with sentences():
        return _coordinator.ask_if_it_runs(command)


def none_runs() -> str:
    """What is to be said where :func:`ask_if_it_runs` found none."""
    return f"No coordinator runs at {socket_path()}: no job shares a GPU. The first one starts it."


def watched() -> dict[str, Any]:
    """The status for who watches as data: while no coordinator runs, one in which nothing is, and "daemon" is null."""
    return ask_if_it_runs("status") or {"daemon": None, "devices": [], "jobs": []}


def configure() -> None:
    """Takes up the config file; exit status 1 with each of its mistakes."""
    control()
    with sentences():
        _config.apply()


@contextlib.contextmanager
def sentences() -> Iterator[None]:
    """What fails inside ends the command, with exit status 1 and the error's own sentence."""
    try:
        yield
    except (RuntimeError, OSError, ValueError, MemoryError) as error:
        raise click.ClickException(str(error)) from None


def size(count: int) -> str:
    """``61.4 GiB``."""
    return str(control().format_bytes(count))


def duration(seconds: float) -> str:
    """``4.2 ms``, ``1.30 s``, ``12 min``: for people."""
    if seconds < 1:
        return f"{seconds * 1e3:.1f} ms"
    if seconds < 100:
        return f"{seconds:.2f} s"
    return f"{seconds / 60:.0f} min"


def policy(daemon: dict[str, Any]) -> str:
    """Who decides, as ``status`` says it: "fair", or "mine.py (has failed, fair decides: ...)"."""
    trouble = daemon.get("policy_trouble")  # an older coordinator says nothing
    return daemon["policy"] + (f" (has failed, fair decides: {trouble})" if trouble else "")


def one_for_both(uid: int, other: int) -> str:
    """What to do about two coordinators of one device, of these users."""
    if uid == other:
        return "Let both use one folder: the same HOCKET_RUNTIME_DIR, mounted into a container that has its own /tmp."
    return "Root can run one for all users: hocketd --system."
