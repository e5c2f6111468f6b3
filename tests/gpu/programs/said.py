"""How the programs here speak to the test that started them: a line at a time."""

from __future__ import annotations

import json
import select
import sys
from typing import Any


def line(text: str) -> None:
    print(text, flush=True)


def data(name: str, **values: Any) -> None:
    """A line that begins with ``name`` and goes on as JSON."""
    line(f"{name} {json.dumps(values)}")


def holdings() -> None:
    """What this job holds and has moved, in bytes."""
    from hocket import _native

    data("holdings", **_native.holdings()[0])


def wait_for_go() -> None:
    """Until the test says so."""
    sys.stdin.readline()


def told_to_go(within: float) -> bool:
    """Whether the test says so within so many seconds."""
    if not select.select([sys.stdin], [], [], within)[0]:
        return False
    wait_for_go()
    return True
