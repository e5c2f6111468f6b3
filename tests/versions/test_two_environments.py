"""Two virtual environments with different torch, each with its own Hocket, share one device and one coordinator."""

from __future__ import annotations

import pathlib
import re
import subprocess
import sys

import pytest
from world import PROGRAMS, Program, World

TRAINING = ("--steps", "12", "--layers", "2", "--width", "256")


def start(world: World, python: str, name: str, *options: str) -> Program:
    """A training with that environment's own hocket, emulator and torch."""
    hocket = pathlib.Path(python).with_name("hocket")
    emulate = (str(hocket), "emulate", "--name", world.name, "--memory", world.memory, "--check", "--")
    job = (python, str(PROGRAMS / "train.py"), "--name", name, "--losses", str(world.losses(name)), *TRAINING)
    return world.start(*emulate, *job, *options, emulated=False)


def torch_of(python: str) -> str:
    return subprocess.check_output([python, "-c", "import torch; print(torch.__version__)"], text=True).strip()


@pytest.mark.parametrize("older_starts_the_coordinator", [True, False])
def test_they_take_turns_under_one_coordinator(
    world: World, other_python: str, older_starts_the_coordinator: bool
) -> None:
    pythons = [sys.executable, other_python]
    assert torch_of(pythons[0]) != torch_of(pythons[1])
    if older_starts_the_coordinator:
        pythons.reverse()
    for i, python in enumerate(pythons):
        start(world, python, f"alone-{i}").finishes()
    first = start(world, pythons[0], "first", "--hold", "4")
    first.expect("step 4")
    coordinator = world.status()["daemon"]["pid"]
    second = start(world, pythons[1], "second")
    world.until("second", "waits")
    status = world.status()
    assert status["daemon"]["pid"] == coordinator
    assert {job["name"] for job in status["jobs"]} == {"first", "second"}
    assert len(status["devices"]) == 1, status["devices"]
    first.go_on()  # to the end of its step, where its turn ends because the second waits
    for job in (first, second):
        job.finishes()
    turns = re.search(r"turns=(\d+)", first.lines[-1])
    assert turns and int(turns[1]) > 1, first.story()
    for i, name in enumerate(("first", "second")):
        assert world.losses(name).read_text() == world.losses(f"alone-{i}").read_text()
