"""What several rooms of tests stand on."""

from __future__ import annotations

import pathlib
import sys
import tempfile
from collections.abc import Iterator

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent / "e2e"))

from world import World


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "one_torch: what it shows is the same with every version of torch")


@pytest.fixture
def world() -> Iterator[World]:
    """A coordinator and an emulated device of the test's own."""
    # Not pytest's own folder: its path is too long for a socket.
    with tempfile.TemporaryDirectory(prefix="hk-") as folder:
        world = World(pathlib.Path(folder))
        yield world
        world.close()
