"""Processes that use two devices, whose step needs the turns of both."""

from __future__ import annotations

import sys

from world import PROGRAMS, World, hocket_command


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


def test_ranks_that_all_keep_something_on_the_first_device_train_beside_another_job(world: World) -> None:
    world.devices = 2
    torchrun = (sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--standalone")
    script = str(PROGRAMS / "ddp.py")
    other = world.job("train", "--name", "other", "--hold", "2", "--steps", 6, "--layers", 2, "--width", 64)
    other.expect("step 2")
    ranks = world.start(
        *hocket_command(), "run", "--", *torchrun, script, str(world.losses("ranks")), "1", "128", "all-on-first"
    )
    world.until_all(lambda jobs: "waits" in jobs.values(), "a rank that waits")
    other.go_on()
    ranks.finishes()
    other.finishes()
    single = world.start(*torchrun, script, str(world.losses("single")), "1", "128", "all-on-first")
    single.finishes()
    assert world.losses("ranks").read_text() == world.losses("single").read_text()
