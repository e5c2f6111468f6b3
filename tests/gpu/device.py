"""The device under test: starts programs on it, watches its memory, and fills it so that little is left."""

from __future__ import annotations

import json
import os
import pathlib
import sys
import time
from collections.abc import Callable
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "e2e"))

import world  # noqa: E402
from world import PATIENCE as PATIENCE  # noqa: E402
from world import Program as Program  # noqa: E402
from world import World  # noqa: E402

MIB = 1 << 20
SLACK = 64 * MIB  # what may have changed its size meanwhile beside what is measured: an arena, a cache


def data(program: Program, name: str) -> dict[str, Any]:
    """What the program says in its next line that begins with ``name``, as JSON."""
    return json.loads(program.expect(name).split(" ", 1)[1])


class Monitor:
    """Asks the driver what is free, from a process of its own that allocates nothing."""

    def __init__(self, program: Program) -> None:
        self._program = program
        program.expect("watching")

    def _ask(self, what: str) -> int:
        assert self._program.process.stdin
        self._program.process.stdin.write(what + "\n")
        self._program.process.stdin.flush()
        return int(self._program.expect(what).split()[1])

    def free(self) -> int:
        return self._ask("free")

    def peak(self) -> int:
        """The largest use in bytes since this was asked last."""
        return self._ask("peak")

    def milliseconds_until(self, holds: Callable[[int], bool], since: float) -> float:
        """Waits until ``holds(free bytes)``; milliseconds since ``since`` (time.monotonic)."""
        while not holds(free := self.free()):
            assert time.monotonic() < since + PATIENCE, f"{free} bytes are free, and stay so"
        return (time.monotonic() - since) * 1e3


class Device(World):
    """The GPU of this machine, or an emulated one of the test's own, with a coordinator of the test's own.

    Tests never ask which: they ask ``can`` (conftest) what it can do, and take sizes from ``size``.
    """

    def __init__(self, folder: pathlib.Path, emulate: bool, size: str) -> None:
        super().__init__(folder)
        self.memory = "512MiB"
        self.size = size
        self._emulate = emulate
        if budget := os.environ.get("HOCKET_HOST_BUDGET"):
            self.environment["HOCKET_HOST_BUDGET"] = budget
        if not emulate:
            self.environment["OMP_NUM_THREADS"] = "4"  # nobody computes on the CPU but the tests' own comparisons
            world.PATIENCE = 60  # device time is short: one that hangs must not cost the others theirs
        inherited = self.environment.get("PYTHONPATH", "")
        self.environment["PYTHONPATH"] = os.pathsep.join([str(ROOT), *([inherited] if inherited else [])])

    def start(self, *command: str, emulated: bool = True, **variables: str) -> Program:
        return super().start(*command, emulated=emulated and self._emulate, **variables)

    def program(self, name: str, *arguments: object, **variables: str) -> Program:
        """Starts ``programs/<name>.py``."""
        return self.start(sys.executable, "-m", f"tests.gpu.programs.{name}", *map(str, arguments), **variables)

    def monitor(self) -> Monitor:
        return Monitor(self.program("monitor"))

    def scaled(self, mib: int) -> int:
        """A size in MiB: as it is on a large device, a sixty-fourth of it where sizes are small."""
        return mib if self.size == "full" else max(8, mib // 64)

    def leave(self, free: int) -> Program:
        """Fills the device with an unmanaged program's memory, but for ``free`` bytes."""
        ballast = self.program("ballast", "--leave", free)
        ballast.expect("holding")
        return ballast
