"""Runs the tests of on_device/ in a process of their own on the emulated GPU, under Hocket's allocator, and under
PyTorch's own over Hocket's memory: there without those that are about what only Hocket's says or does."""

from __future__ import annotations

import pathlib
import sys

import pytest
from world import World

FOLDER = pathlib.Path(__file__).with_name("on_device")


@pytest.mark.parametrize(("allocator", "which"), [("hocket", ""), ("native", "not hockets_own")])
@pytest.mark.parametrize("file", sorted(path.name for path in FOLDER.glob("test_*.py")))
def test_on_device(world: World, file: str, allocator: str, which: str) -> None:
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-s",
        "-p",
        "no:cacheprovider",
        "-m",
        which,
        "--confcutdir",
        str(FOLDER),
    ]
    world.memory = "256MiB"
    tests = ("--rootdir", str(FOLDER), str(FOLDER / file))
    world.start(*command, *tests, HOCKET_ALLOCATOR=allocator).finishes()
