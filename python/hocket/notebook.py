"""A notebook between two cells does not use the device, however long its user thinks.

Its memory may be moved to the host meanwhile, as while a job waits for its turn. A cell begins when it is back. What
runs between two cells all the same (a widget's callback, the tooltip that shows a tensor) has it back by PyTorch's
operators, and gives it up again with the end of the message that it answers, or the next cell.

A cell that ends in the midst of a step, by an exception that IPython keeps and with it the loop, ends that step.
"""

from __future__ import annotations

import functools
import os
import pathlib
import sys
from types import FrameType
from typing import Any, Protocol

from hocket import _strays, hooks

LONGEST_NAME = 128  # bytes (csrc/wire/limits.h)


class Job(Protocol):
    """What is told of a thread: a job's ``_native``."""

    def begin_away(self) -> None: ...
    def end_away(self) -> None: ...
    def end_steps(self) -> None: ...
    def expect_strays(self, expected: bool) -> None: ...


def name() -> str:
    """What the notebook of this process is called; empty: this process is none, or nobody has said."""
    path = pathlib.PurePath(os.environ.get("JPY_SESSION_NAME", ""))  # Jupyter's; what a cell starts inherits it
    if "ipykernel" not in sys.modules or path.suffix != ".ipynb" or not path.stem.isprintable():
        return ""
    return path.stem.encode()[:LONGEST_NAME].decode(errors="ignore")


def watch(job: Job) -> None:
    """Tells ``job`` from now on of the cells of this process's IPython, if it has one. Once per process."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    if shell is None:
        return
    cells = _Cells(job, type(shell).run_code.__code__)
    shell.ast_transformers.append(cells)
    shell.events.register("post_execute", cells.ended)
    _see_messages(getattr(shell, "kernel", None), cells)


def _see_messages(kernel: Any, cells: _Cells) -> None:
    """A page's messages to the kernel that are no cells. Where ``kernel`` does not tell of their ends, nothing."""
    after = getattr(kernel, "post_handler_hook", None)
    if after is None:
        return

    @functools.wraps(after)
    def answered() -> None:
        cells.ended()
        after()

    kernel.post_handler_hook = answered


class _Cells:
    """Sees each cell before it runs, as a transformer of its code that changes nothing, and after it has run.

    An event tells of the begin, too, but what is raised there (Ctrl-C, while the cell waits for its memory) does not
    keep the cell from running.
    """

    def __init__(self, job: Job, runs_a_cell: Any) -> None:
        self._job = job
        self._runs_a_cell = runs_a_cell

    def visit(self, cell: Any) -> Any:
        from IPython.core.error import InputRejected

        try:
            self._job.end_away()
        except KeyboardInterrupt:
            raise InputRejected("this cell has not run: it was interrupted while it waited for its memory") from None
        except Exception as error:
            raise InputRejected(f"this cell has not run: {error}") from error
        return cell

    def ended(self) -> None:
        if self._in_a_cell(sys._getframe()):  # one that another cell has run
            return
        hooks.rest()
        self._job.end_steps()
        _strays.look(self._job)
        self._job.begin_away()

    def _in_a_cell(self, frame: FrameType | None) -> bool:
        while frame is not None:
            if frame.f_code is self._runs_a_cell:
                return True
            frame = frame.f_back
        return False
