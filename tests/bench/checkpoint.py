"""The driver's own calls that move all that a process has on its devices to the host, and back: its checkpoint calls.

They come with driver 570. They are made through ``cuda.bindings`` where that is installed and knows them, else through
ctypes on ``libcuda.so.1``.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

LOCK_MS = 20_000  # how long a process may take to come to rest


class Refused(Exception):
    """The driver does not do it; the text is what it was asked and what it answered."""


class Calls:
    """The calls for other processes.

    Attributes:
        through: by which way they are made, in words.
    """

    def __init__(self, through: str, call: Callable[..., tuple[int, str]], lock_arguments: Any) -> None:
        self.through = through
        self._call, self._lock_arguments = call, lock_arguments
        self._must("cuInit", 0)

    def _must(self, name: str, *arguments: Any) -> None:
        code, answer = self._call(name, *arguments)
        if code != 0:
            raise Refused(f"{name} answers {answer} ({code}), through {self.through}")

    def to_host(self, pid: int) -> None:
        """The process stands still in its next call of the driver; all that it had on its devices is on the host."""
        self._must("cuCheckpointProcessLock", pid, self._lock_arguments)
        self._must("cuCheckpointProcessCheckpoint", pid, None)

    def back(self, pid: int) -> None:
        """All of it is where it was, and the process goes on."""
        self._must("cuCheckpointProcessRestore", pid, None)
        self._must("cuCheckpointProcessUnlock", pid, None)


def find() -> Calls:
    """Refused where there are none."""
    return _through_bindings() or _through_ctypes()


def _through_bindings() -> Calls | None:
    try:
        from cuda import bindings
        from cuda.bindings import driver

        arguments = driver.CUcheckpointLockArgs()
    except (ImportError, AttributeError):  # not there, or older than the calls
        return None
    arguments.timeoutMs = LOCK_MS
    through = f"cuda.bindings {bindings.__version__}"

    def call(name: str, *given: Any) -> tuple[int, str]:
        try:
            (code, *_) = getattr(driver, name)(*given)
        except RuntimeError as error:  # the driver that is there has no such call
            raise Refused(f"{name}: {error}, through {through}") from error
        return int(code), code.name

    return Calls(through, call, arguments)


class _LockArguments(ctypes.Structure):
    _fields_ = (("timeout_ms", ctypes.c_uint), ("reserved0", ctypes.c_uint), ("reserved1", ctypes.c_uint64 * 7))


def _through_ctypes() -> Calls:
    through = "ctypes on libcuda.so.1"
    try:
        library = ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        raise Refused(f"there is no driver: {error}") from error

    def name_of(code: int) -> str:
        text = ctypes.c_char_p()
        known = library.cuGetErrorName(code, ctypes.byref(text)) == 0 and text.value
        return text.value.decode() if known else "an error without a name"

    def call(name: str, number: int, *given: Any) -> tuple[int, str]:
        try:
            function = getattr(library, name)
        except AttributeError:
            raise Refused(f"this driver has no {name}, which came with 570, through {through}") from None
        pointers = [None if value is None else ctypes.byref(value) for value in given]
        code = function(ctypes.c_int(number), *pointers)
        return code, name_of(code)

    return Calls(through, call, _LockArguments(timeout_ms=LOCK_MS))
