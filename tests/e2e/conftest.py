"""Fixtures of the end-to-end tests."""

from __future__ import annotations

import pathlib
import tempfile
from collections.abc import Callable

import pytest
from world import World

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
