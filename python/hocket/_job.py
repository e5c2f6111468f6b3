"""This process as a job: the only module that imports ``_native``; the others have it from ``require()``.

    import hocket  ->  activate(): Hocket's allocator becomes PyTorch's, ranks become gangs
    join()         ->  what the job says of itself; the first step or the first allocation on the device joins
    steps()/step() ->  current().begin_step() / end_step()
    leave()        ->  out again; the process lives on outside

If the coordinator cannot be had, steps run all the same. Thread-safe as far as ``_native`` is: a module-level lock
guards only this module's own state.
"""

from __future__ import annotations

import atexit
import dataclasses
import functools
import importlib
import math
import numbers
import operator
import os
import re
import sys
import threading
import time
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

from hocket.errors import BuiltForAnotherTorch, HocketError, NotBuilt

PRIORITIES = ("high", "normal", "low")
ALLOCATORS = ("hocket", "native", "off")  # what HOCKET_ALLOCATOR may say; the first is meant where it says nothing

REBUILD = "In Hocket's source folder: pip install --no-build-isolation --force-reinstall --no-deps ."

_lock = threading.RLock()
_native: ModuleType | None = None  # set by activate()
_activated = False
_left_in: int | None = None  # the process that has left; a child that it forks later is none that has


@dataclasses.dataclass(frozen=True)
class Options:
    """What a job says of itself. Checked when made: ValueError names the option, its value and what it may be."""

    name: str = ""
    weight: float = 1.0
    priority: str = "normal"
    memory_limit: int = 0  # bytes; 0: the device's capacity
    total_steps: int = 0  # 0: unknown
    serves: bool = False  # its steps are requests
    group: str = ""  # of jobs, whose quotas hold for it, too; "": none

    def __post_init__(self) -> None:
        if not (isinstance(self.weight, numbers.Real) and math.isfinite(self.weight) and self.weight > 0):
            raise ValueError(f"weight is {self.weight!r}: it must be a number > 0 (1 is usual; 2 gets twice the time)")
        if self.priority not in PRIORITIES:
            raise ValueError(f"priority is {self.priority!r}: it must be one of {', '.join(PRIORITIES)}")
        for option, unit, meaning in (("memory_limit", " bytes", "for the whole device"),
                                      ("total_steps", "", "where it is not known")):  # fmt: skip
            value = getattr(self, option)
            whole = _whole(value)
            if whole is None or not 0 <= whole < 1 << 63:
                raise ValueError(f"{option} is {value}{unit}: it must be a whole number > 0 and < 2^63, or 0 {meaning}")
            object.__setattr__(self, option, whole)
        if not isinstance(self.serves, bool):
            raise ValueError(f"serves is {self.serves!r}: it must be True or False")
        if self.group != "" and not is_group(self.group):
            raise ValueError(f"group is {self.group!r}: it must be a name of {GROUP_NAMES}, or '' for none")


GROUP_NAMES = "letters, digits, '.', '_' and '-', at most 128 of them"


def is_group(name: Any) -> bool:
    """What may be the name of a group of jobs (csrc/wire/limits.h)."""
    return isinstance(name, str) and re.fullmatch(r"[A-Za-z0-9._-]{1,128}", name) is not None


def _whole(value: Any) -> int | None:
    """Of 1000, 1e3 and numpy's numbers; None: it is no whole number."""
    try:
        return operator.index(value)
    except TypeError:
        return int(value) if isinstance(value, numbers.Real) and float(value).is_integer() else None


def options_from_environment(environment: Mapping[str, str] = os.environ) -> Options:
    """What ``hocket run`` and the environment say: HOCKET_NAME and its kin, one for each option."""

    def read(variable: str, convert: Callable[[str], Any], default: Any) -> Any:
        text = environment.get(variable, "")
        try:
            return convert(text) if text else default
        except ValueError as error:
            raise ValueError(f"{variable}={text!r}: {error}") from None

    return Options(
        name=environment.get("HOCKET_NAME", ""),
        weight=read("HOCKET_WEIGHT", float, 1.0),
        priority=environment.get("HOCKET_PRIORITY") or "normal",
        memory_limit=read("HOCKET_MEMORY_LIMIT", parse_bytes, 0),
        total_steps=read("HOCKET_TOTAL_STEPS", int, 0),
        serves=read("HOCKET_SERVES", _parse_switch, False),
        group=environment.get("HOCKET_GROUP", ""),
    )


def _parse_switch(text: str) -> bool:
    if text not in ("0", "1"):
        raise ValueError("it must be 1 or 0")
    return text == "1"


def parse_bytes(size: str | int) -> int:
    """Bytes of ``8GiB``, ``"512 MiB"`` or a plain number. ValueError names the text and the accepted forms."""
    return int(load_control().parse_bytes(size)) if isinstance(size, str) else size


def load_control() -> ModuleType:
    """The extension that knows no torch. NotBuilt says how to get it."""
    try:
        return importlib.import_module("hocket._control")
    except ImportError as error:
        raise NotBuilt(
            f"Hocket's compiled part is missing or does not load ({error}). "
            "Install it again in this environment: pip install --no-build-isolation ."
        ) from error


def _load_native(torch_version: str) -> ModuleType:
    built_for = load_control().built_for_torch
    if built_for != torch_version:
        raise BuiltForAnotherTorch(
            f"Hocket was built for torch {built_for}, and this environment has torch {torch_version}. "
            f"Build it again for this one. {REBUILD}"
        )
    try:
        return importlib.import_module("hocket._native")
    except ImportError as error:
        raise NotBuilt(
            f"Hocket's extension for torch {torch_version} does not load ({error}). Build it again. {REBUILD}"
        ) from error


def activate() -> None:
    """Makes Hocket's allocator PyTorch's, if CUDA has not started, and lets ranks become gangs. Once.

    Without torch in the environment it does nothing. BrokenConfig, BuiltForAnotherTorch, NotBuilt: see errors.
    """
    try:
        import torch  # its own last act may call this function through `hocket run`
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        return
    global _activated, _native
    with _lock:
        if _activated:
            return
        chosen = allocator_from_environment()
        native = _native or _load_native(torch.__version__)
        if not os.environ.get("HOCKET_RUN"):  # `hocket run` has done so, and its processes are all to do the same
            from hocket import _config

            _config.apply()
        options = options_from_environment()  # what raises, up to here, does so at every import of hocket
        from hocket import notebook

        options = dataclasses.replace(options, name=options.name or notebook.name())
        _native, _activated = native, True
        _configure(options)
        _install_allocator(torch, native, chosen)
    from hocket import _strays, gang, loading

    _strays.watch(native)
    gang.install()
    loading.watch(native)
    notebook.watch(native)


def allocator_from_environment() -> str:
    """What HOCKET_ALLOCATOR says; ValueError names the value and what it may be."""
    chosen = os.environ.get("HOCKET_ALLOCATOR") or ALLOCATORS[0]
    if chosen not in ALLOCATORS:
        raise ValueError(f"HOCKET_ALLOCATOR={chosen!r}: it must be one of {', '.join(ALLOCATORS)}")
    return chosen


def _install_allocator(torch: ModuleType, native: ModuleType, chosen: str) -> None:
    if chosen == "off":
        return
    late = torch.cuda.is_initialized()
    try:
        if late or chosen == "native":
            _keep_native(native, late)
        else:
            native.install_allocator()
    except RuntimeError as error:
        began = "CUDA had started before hocket was imported, and " if late else ""
        say(f"{began}{error}\n  This job takes turns, but its memory stays where it is.")
        return
    _show_the_jobs_room(torch)


def _keep_native(native: ModuleType, late: bool) -> None:
    unmanaged = native.keep_native_allocator()
    if late:
        say(f"CUDA had started before hocket was imported: the {load_control().format_bytes(unmanaged)} that PyTorch "
             "held then stay on the device; what it allocates from now on is moved when others need room.")  # fmt: skip


def _show_the_jobs_room(torch: ModuleType) -> None:
    """``torch.cuda.mem_get_info`` asks the CUDA runtime, which knows nothing of what can be spilled."""
    of_the_device = torch.cuda.memory.mem_get_info

    @functools.wraps(of_the_device)
    def mem_get_info(device: Any = None) -> tuple[int, int]:
        return torch.accelerator.get_memory_info(device)

    torch.cuda.memory.mem_get_info = torch.cuda.mem_get_info = mem_get_info


def say(sentence: str) -> None:
    """Tells the user, on stderr."""
    print(f"hocket: {sentence}", file=sys.stderr, flush=True)


def _configure(options: Options) -> None:
    global _options
    _options = options
    assert _native is not None
    _native.configure(**dataclasses.asdict(options))


_options = Options()


def when_joined(callback: Callable[[dict[str, Any]], None]) -> Callable[[], None]:
    """Calls ``callback(info)`` once, soon after this process has joined. Returns a function that looks at once.

    A process joins with its first allocation on a device, or with its first step. PyTorch tells nobody of the first, so
    from the start of CUDA on a thread looks, until then only.
    """
    import torch

    told = threading.Lock()

    def tell() -> None:
        info = require().info()
        if info["joined"] and told.acquire(blocking=False):
            callback(info)

    def look() -> None:
        while not told.locked():
            tell()
            time.sleep(0.02)

    def start() -> None:
        threading.Thread(target=look, name="hocket-joining", daemon=True).start()

    def forked() -> None:  # a child that may use the GPU joins for itself
        if told.locked() and not require().forked():
            told.release()

    torch.cuda._lazy_call(start)
    atexit.register(tell)
    os.register_at_fork(after_in_child=forked)
    return tell


def require() -> ModuleType:
    """``_native`` itself, activated. NotBuilt where there is no torch."""
    if _native is None:
        activate()
    if _native is None:
        raise NotBuilt("hocket's steps need PyTorch, and this environment has no torch. Install torch, then Hocket.")
    return _native


def current() -> ModuleType:
    """This process's job, which says its steps itself: ``begin_step()``, ``end_step(count, step)``, ``info()``."""
    native = require()
    from hocket import hooks

    hooks.stand_down()
    return native


def join(
    name: str | None = None,
    weight: float | None = None,
    priority: str | None = None,
    memory_limit: str | int | None = None,
    total_steps: int | None = None,
    serves: bool | None = None,
    group: str | None = None,
) -> None:
    """Says who this job is. Optional; call it before the model goes to the GPU and before the first step.

    Args:
        name: shown by ``hocket status``; made unique where another job has it. Default: from the program.
        weight: share of the device, > 0: under ``fair``, 2 gets twice the time of 1.
        priority: ``"high"``, ``"normal"`` or ``"low"``.
        memory_limit: the most memory it may hold, on the device and spilled: ``"20GiB"`` or bytes.
        total_steps: how many steps it will run, if known.
        serves: its steps are requests that somebody waits for (``with hocket.step(): ...`` around each). Who trains on
            the same device stands still for them, in the midst of a step too.
        group: of jobs whose caps and guarantees (``hocket quota --group``) hold for this one, too.

    Raises:
        ValueError: an option out of range, with its value and the range.
        HocketError: the job has joined already, or has left.
    """
    given = {
        "name": name,
        "weight": weight,
        "priority": priority,
        "memory_limit": None if memory_limit is None else parse_bytes(memory_limit),
        "total_steps": total_steps,
        "serves": serves,
        "group": group,
    }
    options = dataclasses.replace(_options, **{k: v for k, v in given.items() if v is not None})
    native = require()
    if _left_in == os.getpid():
        raise HocketError(
            "hocket.join(): this process has left with hocket.leave(), and runs outside until it ends. "
            "Call join() only before, or start what is to take turns as a process of its own."
        )
    if native.info()["joined"]:
        this = native.info()["name"]
        raise HocketError(
            f"hocket.join(): this process is job {this} already: it joined when CUDA started or its first step began. "
            f"Call join() before both, or change it from outside: hocket set {this} --weight 2"
        )
    _configure(options)


def join_gang(gang: str, rank: int, size: int) -> None:
    """This process is rank ``rank`` of ``size`` that must have their turns together."""
    require().join_gang(gang, rank, size)


def coordinator_path() -> str:
    """The socket of the coordinator that this process uses."""
    return str(load_control().socket_path())


def leave() -> None:
    """Ends the job: its turn passes on and its allocations no longer wait; the process goes on outside.

    Its memory stays on the device, and the coordinator counts it until the process ends. Does nothing for a process
    that has not joined. For good: ``join()`` after it is an error.
    """
    global _left_in
    if _native is not None and _native.info()["joined"]:
        _native.leave()
        _left_in = os.getpid()
