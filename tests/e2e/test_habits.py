"""Trainings with the habits that programs have lose no bit, wherever a step ends and whatever moves there."""

from __future__ import annotations

import pathlib
import random
import re
import sys
from collections.abc import Iterator

import pytest
from world import PROGRAMS, Program, World

AT_LEAST = 20  # habits


def losses_in(folder: pathlib.Path) -> dict[str, str]:
    return {file.name: file.read_text() for file in sorted(folder.iterdir())}


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """What each habit computes with PyTorch alone."""
    folder = tmp_path_factory.mktemp("losses")
    world = World(tmp_path_factory.mktemp("plain"))
    try:
        world.start(sys.executable, str(PROGRAMS / "habits.py"), "--losses", str(folder)).finishes()
    finally:
        world.close()
    found = losses_in(folder)
    assert len(found) >= AT_LEAST
    yield found


def start(world: World, name: str, *habits: str, **variables: str) -> Program:
    folder = world.folder / name
    folder.mkdir()
    return world.run("habits", "--losses", folder, *habits, **variables)


def counted(program: Program, what: str) -> dict[str, int]:
    found = (re.fullmatch(rf"(\w+) ended 0.* {what}=(\d+).*", line) for line in program.lines)
    return {match[1]: int(match[2]) for match in found if match}


@pytest.mark.parametrize("allocator", ["hocket", "native"])
def test_every_habit_computes_the_same_with_everything_spilled_at_every_step(
    world: World, plain: dict[str, str], allocator: str
) -> None:
    program = start(world, "forced", HOCKET_FORCE_SPILL="1", HOCKET_VERIFY="1", HOCKET_ALLOCATOR=allocator).finishes()
    for name, losses in losses_in(world.folder / "forced").items():
        assert losses == plain[name], name
    steps, restored = counted(program, "steps"), counted(program, "restored")
    assert steps.keys() == restored.keys() == plain.keys()
    assert min(steps.values()) >= 4, steps
    assert min(restored.values()) > 0, restored


@pytest.mark.parametrize("allocator", ["hocket", "native"])
def test_a_habit_computes_the_same_with_all_some_or_nothing_spilled_at_each_step(
    world: World, plain: dict[str, str], allocator: str
) -> None:
    drawn = random.Random(1).sample(sorted(plain), len(plain))
    habits = drawn[::2] if allocator == "hocket" else drawn[1::2]
    variables = {"HOCKET_FORCE_SPILL": "random", "HOCKET_VERIFY": "1", "HOCKET_ALLOCATOR": allocator}
    program = start(world, "random", *habits, **variables).finishes()
    found = losses_in(world.folder / "random")
    assert found == {habit: plain[habit] for habit in habits}
    restored = counted(program, "restored")
    assert restored.keys() == found.keys()
    assert min(restored.values()) > 0, restored  # what is drawn is the same in each run


def test_every_habit_computes_the_same_beside_another_one(world: World, plain: dict[str, str]) -> None:
    world.memory = "24MiB"
    programs = [start(world, name) for name in ("a", "b")]
    for name, program in zip("ab", programs, strict=True):
        program.finishes()
        for habit, losses in losses_in(world.folder / name).items():
            assert losses == plain[habit], habit
        assert counted(program, "steps").keys() == plain.keys()
    jobs = [turn["job"] for turn in world.turns()]
    between = {job for i, job in enumerate(jobs) if job in jobs[:i] and jobs[i - 1] != job}
    assert len(between) > 5, jobs  # that many had a turn of another job between two of their own
