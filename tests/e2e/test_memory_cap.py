"""A memory cap of a group, on real trainings."""

from __future__ import annotations

import json
from collections.abc import Callable

from world import World

SMALL = ("--steps", 12, "--layers", 2, "--width", 256)


def of_vision(world: World, name: str):
    """A job of the group that has built its model, and stays there."""
    arguments = ("--name", name, "--hold", "built", "--losses", world.losses(name), *SMALL)
    job = world.job("train", *arguments, HOCKET_GROUP="vision")
    job.expect("built")
    return job


def held(world: World) -> int:
    """What the group's jobs hold."""
    answer = json.loads(world.hocket("quota", "--group", "vision", "--json").stdout)
    return answer["together"][0]["devices"][0]["memory_held"]


def test_what_one_of_a_group_holds_is_not_the_others(world: World, alone: Callable[..., list[str]]) -> None:
    first = of_vision(world, "first")
    assert world.hocket("pause", "first").returncode == 0
    world.until("first", "paused")
    second = of_vision(world, "second")
    assert world.hocket("pause", "second").returncode == 0
    world.until("second", "paused")
    assert world.hocket("quota", "--group", "vision", "--memory-cap", "1GiB").returncode == 0
    cap = held(world)
    said = world.hocket("quota", "--group", "vision", "--memory-cap", str(cap))
    assert said.returncode == 0 and "memory cap " in said.stdout and "holds " in said.stdout, said
    assert world.hocket("resume", "second").returncode == 0
    second.go_on()  # its first step wants more than it holds
    assert second.wait() != 0
    assert "the jobs of group vision may hold" in second.stderr, second.story()
    assert "of which first has" in second.stderr, second.story()
    assert "Raise that cap" in second.stderr, second.story()
    assert world.hocket("quota", "--group", "vision", "--memory-cap", "1GiB").returncode == 0
    assert world.hocket("resume", "first").returncode == 0
    first.go_on()
    first.finishes()
    assert world.losses("first").read_text().split() == alone("train", *SMALL)
