"""Several jobs at the same time: where that pays, and beside one that hangs."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

from world import SMALL, Program, World

# Most of a step it waits for something else than the device: so long that a process which is withheld for a moment is
# not taken for one that is in the other's way.
RESTS = ("--steps", 150, "--layers", 2, "--width", 128)
REST = ("--rest", 0.1)
TOGETHER = "together they do"


def starts_together(world: World) -> list[Program]:
    """Jobs a and b, which run beside each other, as has been measured."""
    jobs = []
    for name in ("a", "b"):
        hold = ("--hold", "built", "--more")  # until they are told: when it is seen that it pays depends on the machine
        jobs.append(world.job("train", "--name", name, "--losses", world.losses(name), *hold, *REST, *RESTS))
        jobs[-1].expect("built")
    said = world.hocket("policy", "pack")
    assert said.returncode == 0 and "at most 4 jobs run at the same time" in said.stdout, said
    for job in jobs:
        job.go_on()
    world.until_why("a", TOGETHER)
    return jobs


def go_to_their_end(*jobs: Program) -> tuple[Program, ...]:
    for job in jobs:
        job.go_on()
    return jobs


def same_as_alone(world: World, alone: Callable[..., list[str]], *names: str) -> None:
    for name in names:
        assert world.losses(name).read_text().split() == alone("train", *RESTS)


def test_jobs_that_leave_the_device_to_others_run_together_and_compute_the_same(
    world: World, alone: Callable[..., list[str]]
) -> None:
    for job in go_to_their_end(*starts_together(world)):
        job.finishes()
    same_as_alone(world, alone, "a", "b")
    turns = world.turns()
    overlap = 0
    for turn in (turn for turn in turns if turn["name"] == "a"):
        for other in (other for other in turns if other["name"] == "b"):
            shared = min(turn["end_ns"], other["end_ns"]) - max(turn["start_ns"], other["start_ns"])
            assert shared <= 0 or turn["turn"] == other["turn"], (turn, other)
            overlap += max(0, shared)
    assert overlap > 0, turns
    steps = {(turn["name"], turn["turn"]): turn["steps"] for turn in turns}
    assert any(steps[name, turn] > 4 and steps.get(("b", turn), 0) > 4 for name, turn in steps if name == "a"), turns


def test_the_one_goes_on_when_the_other_is_killed(world: World, alone: Callable[..., list[str]]) -> None:
    first, second = starts_together(world)
    first.kill()
    go_to_their_end(second)
    second.finishes()
    same_as_alone(world, alone, "b")


def test_both_go_on_when_the_coordinator_is_killed(world: World, alone: Callable[..., list[str]]) -> None:
    jobs = starts_together(world)
    os.kill(world.status()["daemon"]["pid"], signal.SIGKILL)
    for job in go_to_their_end(*jobs):
        job.finishes()
    same_as_alone(world, alone, "a", "b")


def test_another_policy_parts_them(world: World, alone: Callable[..., list[str]]) -> None:
    jobs = starts_together(world)
    assert world.hocket("policy", "fair").returncode == 0
    world.until_all(lambda states: sorted(states.values()) == ["holds", "waits"], "one after the other")
    for job in go_to_their_end(*jobs):
        job.finishes()
    same_as_alone(world, alone, "a", "b")


def test_others_go_on_beside_one_that_hangs_if_people_say_so(world: World, alone: Callable[..., list[str]]) -> None:
    hangs = world.job("train", "--name", "hangs", "--hold", "4", "--losses", world.losses("hangs"), *SMALL)
    hangs.expect("step 4")
    hangs.signal(signal.SIGSTOP)  # or it would give its turn, which it does not use
    other = world.job("train", "--name", "other", "--losses", world.losses("other"), *SMALL)
    assert world.hocket("policy", "--overdue", "go-on").returncode == 0
    other.finishes()
    why = next(job["why"] for job in world.status()["jobs"] if job["name"] == "hangs")
    assert "does it hang?" in why, why
    assert hangs.process.poll() is None, hangs.story()
    hangs.signal(signal.SIGCONT)
    hangs.go_on()
    hangs.finishes()
    for name in ("hangs", "other"):
        assert world.losses(name).read_text().split() == alone("train", *SMALL)
