"""Runs the tests of on_device/ in a process of their own on the emulated GPU, under Hocket's allocator."""

from __future__ import annotations

import pathlib
import sys

import pytest
from world import World

FOLDER = pathlib.Path(__file__).with_name("on_device")


@pytest.mark.parametrize("file", sorted(path.name for path in FOLDER.glob("test_*.py")))
def test_on_device(world: World, file: str) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-s", "-p", "no:cacheprovider", "--confcutdir", str(FOLDER)]
    world.memory = "256MiB"
    world.start(*command, "--rootdir", str(FOLDER), str(FOLDER / file)).finishes()
