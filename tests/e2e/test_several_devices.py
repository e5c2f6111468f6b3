"""Processes that use two devices, whose step needs the turns of both."""

from __future__ import annotations

from world import World


def test_two_that_begin_crosswise_do_not_wait_for_each_other_for_ever(world: World) -> None:
    """Each has, in its first step, the device that the other uses next."""
    world.devices = 2
    alone = world.job("crosswise", "alone", "cuda:0", "cuda:1")
    alone.expect("has")
    alone.go_on()
    expected = alone.finishes().lines[-1]
    jobs = [world.job("crosswise", "there", "cuda:0", "cuda:1"), world.job("crosswise", "back", "cuda:1", "cuda:0")]
    for job in jobs:
        job.expect("has")
    for job in jobs:
        job.go_on()
    for job in jobs:
        assert job.finishes().lines[-1] == expected
    said = world.hocket("logs").stdout
    assert "in a step in which it waits for another device, whose holder waits for this one" in said, said
