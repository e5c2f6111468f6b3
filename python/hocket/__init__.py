"""Several PyTorch jobs share one GPU and take turns by training step.

    import hocket

    for batch in hocket.steps(loader):       # the one line
        loss = model(batch).loss
        loss.backward(); optimizer.step(); optimizer.zero_grad()

Import it before CUDA starts in the process: its allocator becomes PyTorch's then. Afterwards PyTorch keeps its own
over memory of Hocket's: what is allocated from then on can be moved, what it held before stays on the device.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

import _hocket_start

if TYPE_CHECKING:
    from hocket._cmake import cmake_prefix as cmake_prefix
    from hocket._constant import constant as constant
    from hocket._in_order import restore_in_order as restore_in_order
    from hocket._job import join as join
    from hocket._job import leave as leave
    from hocket._steps import away as away
    from hocket._steps import step as step
    from hocket._steps import steps as steps
    from hocket.errors import BrokenConfig as BrokenConfig
    from hocket.errors import BuiltForAnotherTorch as BuiltForAnotherTorch
    from hocket.errors import CoordinatorUnavailable as CoordinatorUnavailable
    from hocket.errors import HocketError as HocketError
    from hocket.errors import NotBuilt as NotBuilt

_PUBLIC = {
    "steps": "hocket._steps",
    "step": "hocket._steps",
    "away": "hocket._steps",
    "constant": "hocket._constant",
    "restore_in_order": "hocket._in_order",
    "join": "hocket._job",
    "leave": "hocket._job",
    "cmake_prefix": "hocket._cmake",
    "HocketError": "hocket.errors",
    "CoordinatorUnavailable": "hocket.errors",
    "BrokenConfig": "hocket.errors",
    "BuiltForAnotherTorch": "hocket.errors",
    "NotBuilt": "hocket.errors",
    "__version__": "hocket._version",
}
__all__ = [name for name in _PUBLIC if name != "__version__"]


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'hocket' has no attribute {name!r}")
    value = getattr(importlib.import_module(_PUBLIC[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_PUBLIC])


if _hocket_start.imported_by_program:
    from hocket import _job

    _job.activate()
