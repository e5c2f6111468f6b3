"""Tests of the emulated GPU run in processes of their own: the emulated runtime must be preloaded."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
import uuid

import forked
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]
BUILDS = (os.environ.get("HOCKET_EMULATOR_LIBRARIES"), ROOT / "build/dev/lib/emulator")


def _libraries() -> pathlib.Path | None:
    """Where the emulator's libraries are: named, built in the checkout, or installed with the package."""
    import importlib.util

    places = [pathlib.Path(place) for place in BUILDS if place]
    package = importlib.util.find_spec("hocket")
    if package is not None and package.submodule_search_locations:
        places += [pathlib.Path(p) / "lib/emulator" for p in package.submodule_search_locations]
    return next((p for p in places if (p / "libhocket_emulator_runtime.so").exists()), None)


class Emulator:
    """Runs Python on an emulated GPU of its own."""

    def __init__(self, libraries: pathlib.Path) -> None:
        self.libraries = libraries

    @property
    def prelude(self) -> str:
        """What a program begins with that is started by other means than ``run``."""
        return PRELUDE

    def environment(self, mode: str = "values", **more: str) -> dict[str, str]:
        return (
            os.environ
            | {
                "LD_PRELOAD": str(self.libraries / "libhocket_emulator_runtime.so"),
                "LD_LIBRARY_PATH": f"{self.libraries}:{os.environ.get('LD_LIBRARY_PATH', '')}",
                "PYTHONPATH": f"{ROOT / 'python'}:{os.environ.get('PYTHONPATH', '')}",
                "HOCKET_EMULATOR_NAME": f"test-{uuid.uuid4().hex[:12]}",
                "HOCKET_EMULATOR_MEMORY": "2GiB",
                "HOCKET_EMULATOR_MODE": mode,
                "HOCKET_EMULATOR_CHECK": "1",
                # The package's own start is called by PRELUDE, whether or not it is installed.
                "TORCH_DEVICE_BACKEND_AUTOLOAD": "0",
                "OMP_NUM_THREADS": "1",
            }
            | more
        )

    def run(self, program: str, mode: str = "values", timeout: int = 300, **more: str) -> subprocess.CompletedProcess:
        command = [sys.executable, "-c", PRELUDE + program]
        environment = self.environment(mode, **more)
        if all(name.startswith("HOCKET_") for name in more):
            return forked.run(command, environment, timeout)
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=timeout)

    def output(self, program: str, **options: str) -> str:
        done = self.run(program, **options)
        assert done.returncode == 0, done.stderr[-3000:]
        return done.stdout.strip()


PRELUDE = """
import torch, _hocket_start
_hocket_start.imported_by_program = False
from hocket import emulator; emulator.activate()
import torch.nn as nn, torch.nn.functional as F
"""


@pytest.fixture(scope="session")
def emulator() -> Emulator:
    libraries = _libraries()
    if libraries is None:
        pytest.fail("the emulator is not built: run ./scripts/setup, or ninja -C build/dev hocket_package")
    return Emulator(libraries)
