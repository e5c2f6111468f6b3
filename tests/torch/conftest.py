"""Tests of Hocket as PyTorch's allocator. Those in on_device run inside one process on the emulated GPU."""

from __future__ import annotations

import pathlib
import sys
import tempfile
from collections.abc import Iterator

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "e2e"))

from world import World

collect_ignore = ["on_device"]


@pytest.fixture
def world() -> Iterator[World]:
    with tempfile.TemporaryDirectory(prefix="hk-") as folder:
        world = World(pathlib.Path(folder))
        yield world
        world.close()
