"""Stands in for torch._dynamo in a program that compiles nothing; to be imported before its optimizer's first step.

That step imports all of it, which takes as long as `import torch` itself: half of what most programs here would do.
What a training does with the real one, ``habits.py`` and others show.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Callable
from typing import TypeVar

F = TypeVar("F", bound=Callable[..., object])


def _disable(function: F, recursive: bool = True, **_: object) -> F:
    return function


_none = types.ModuleType("torch._dynamo")
_none.graph_break = lambda *_, **__: None  # type: ignore[attr-defined]
_none.disable = _disable  # type: ignore[attr-defined]
sys.modules.setdefault("torch._dynamo", _none)
