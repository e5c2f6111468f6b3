"""What the coordinator shows of a job's memory is what the job's own allocator counts."""

from __future__ import annotations

from typing import Any

import pytest
from world import LARGE, LARGE_BYTES, Program, World

# The name in `allocator` of `hocket status --json`: what the allocator calls it.
COUNTED = {
    "allocations": "step_allocations",
    "planned": "planned_allocations",
    "deviated": "deviating_allocations",
    "survived": "survived_total",
    "foreseen": "foreseen_total",
    "adopted": "adopted",
    "adopted_last": "adopted_last",
    "adopted_total": "adopted_total",
}
TOTALS = ("spilled_total", "restored_total", "persistent", "spilled")


def train(world: World, name: str, *hold: str) -> Program:
    return world.job("train", "--name", name, "--counts", *hold, *LARGE)


def two_that_spill_each_other(world: World) -> dict[str, Program]:
    """Both have done their steps, and live, without a turn: nothing of theirs moves any more, and all has been told."""
    world.memory = "180MiB"
    first = train(world, "first", "--hold", "2")
    first.expect("step 2")  # the optimizer's state is there: the device is nearly full
    second = train(world, "second")
    world.until("second", "waits")
    assert world.hocket("pause", "first").returncode == 0  # or it may have ended before the second needs room
    first.go_on()
    second.expect("step 2")
    assert world.hocket("resume", "first").returncode == 0
    jobs = {"first": first, "second": second}
    for name, job in jobs.items():
        job.expect("trained")
        assert world.hocket("pause", name).returncode == 0
    world.until_all(lambda states: set(states.values()) == {"paused"}, "both have given up their turns")
    return jobs


def counts(job: Program) -> dict[str, int]:
    """What it says of itself."""
    job.go_on()
    words = job.expect("counts").split()[1:]
    return {key: int(value) for key, value in (word.split("=") for word in words)}


def until_shown(world: World, counted: dict[str, dict[str, int]]) -> dict[str, dict[str, Any]]:
    """Watches the coordinator until it shows of each job what that counts itself; the jobs, as they are shown then."""

    def differs(job: dict[str, Any], own: dict[str, int]) -> bool:
        allocator = {key: own[what] for key, what in COUNTED.items()}
        return job["allocator"] != allocator or any(job[key] != own[key] for key in TOTALS)

    def shows(jobs: dict[str, dict[str, Any]]) -> bool:
        return not any(name not in jobs or differs(jobs[name], own) for name, own in counted.items())

    return world.until_jobs(shows, f"a status that shows {counted}")


@pytest.mark.one_torch
def test_moves_and_allocations_are_shown_as_the_jobs_count_them(world: World) -> None:
    jobs = two_that_spill_each_other(world)
    counted = {name: counts(job) for name, job in jobs.items()}
    shown = until_shown(world, counted)
    for name, job in shown.items():
        allocator, moves = job["allocator"], job["moves"]
        assert 0 < allocator["planned"] <= allocator["allocations"], job
        assert 0 < allocator["foreseen"] <= allocator["survived"], job
        assert max(allocator["adopted"], allocator["adopted_last"]) <= allocator["adopted_total"], job
        for move, total in (("spill", "spilled_total"), ("restore", "restored_total")):
            record = moves[move]
            assert record["copied"] == counted[name][total], (name, move, record)
            assert record["bytes"] >= record["copied"], (name, move, record)
            assert record["timed"]["moves"] <= record["moves"], (name, move, record)
            assert 0 <= record["timed"]["s"] <= record["s"], (name, move, record)
        assert (moves["spill"]["now"]["bytes"], moves["restore"]["now"]["bytes"]) == (job["persistent"], job["spilled"])
    first = shown["first"]["moves"]
    assert first["spill"]["copied"] + shown["second"]["moves"]["spill"]["copied"] > LARGE_BYTES / 2
    # What it was asked for it had; what was asked for is less than a chunk short of what came.
    assert first["spill"]["bytes_error"] < 0.5 and first["restore"]["bytes_error"] < 0.5, first
    assert first["restore"]["timed"]["moves"] > 0, first  # the spills before it have shown the link's rate
    assert first["restore"]["timed"]["foretold_s"] > 0 and first["restore"]["timed"]["error"] is not None, first

    said = world.hocket("explain", "first").stdout
    for words in ("  spills: ", "  restores: ", "  placed by plan: ", "  survivors: "):
        assert words in said, said


@pytest.mark.one_torch
def test_another_coordinator_shows_what_the_jobs_counted_before_it_came(world: World) -> None:
    jobs = two_that_spill_each_other(world)
    counted = {name: counts(job) for name, job in jobs.items()}
    before = until_shown(world, counted)
    before = {name: job["allocator"] for name, job in before.items()}
    assert world.hocket("restart").returncode == 0
    world.until_all(lambda states: states.keys() == {"first", "second"}, "both have joined it")
    after = until_shown(world, counted)
    assert {name: job["allocator"] for name, job in after.items()} == before
    for job in after.values():
        assert job["moves"]["spill"]["moves"] == job["moves"]["restore"]["moves"] == 0  # of this coordinator
        assert job["moves"]["restore"]["now"] == {"bytes": job["spilled"], "s": None}, job  # its link is not known yet
    for name in jobs:  # to end it they want a turn
        assert world.hocket("resume", name).returncode == 0
    for job in jobs.values():
        job.go_on()
    for job in jobs.values():
        job.finishes()
