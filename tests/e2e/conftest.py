"""Fixtures of the end-to-end tests."""

from __future__ import annotations

import pathlib
import sys
import tempfile
from collections.abc import Callable, Iterator

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))

from world import World


@pytest.fixture
def world() -> Iterator[World]:
    # Not pytest's own folder: its path is too long for a socket.
    with tempfile.TemporaryDirectory(prefix="hk-") as folder:
        world = World(pathlib.Path(folder))
        yield world
        world.close()


_alone: dict[tuple, list[str]] = {}


@pytest.fixture(scope="session")
def alone() -> Callable[..., list[str]]:
    """``alone("train", "--steps", 5)``: the losses of a program that has the device to itself; computed once."""

    def losses(program: str, *arguments: object, memory: str = "2GiB") -> list[str]:
        key = (program, *map(str, arguments))
        if key not in _alone:
            with tempfile.TemporaryDirectory(prefix="hk-") as folder:
                world = World(pathlib.Path(folder))
                world.memory = memory
                file = world.losses("alone")
                world.job(program, *arguments, "--losses", file).finishes()
                world.close()
                _alone[key] = file.read_text().split()
        return _alone[key]

    return losses
