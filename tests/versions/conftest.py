"""These tests need a second environment with another torch: ``scripts/test versions`` makes it and runs them."""

from __future__ import annotations

import os
import pathlib
import sys
import tempfile
from collections.abc import Iterator

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "e2e"))

from world import World


@pytest.fixture
def world() -> Iterator[World]:
    with tempfile.TemporaryDirectory(prefix="hk-") as folder:
        world = World(pathlib.Path(folder))
        yield world
        world.close()


@pytest.fixture(scope="session")
def other_python() -> str:
    """The interpreter of the second environment."""
    python = os.environ.get("HOCKET_OTHER_PYTHON", "")
    assert os.access(python, os.X_OK), f"HOCKET_OTHER_PYTHON={python!r} is no interpreter: run scripts/test versions"
    return python
