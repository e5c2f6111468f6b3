"""Two and more trainings on one device: they take turns, and their losses are what they are alone."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable

import pytest
from world import PROGRAMS, Program, World, hocket_command

SMALL = ("--steps", 12, "--layers", 2, "--width", 256)
# 18 layers of 2.2 MB: 40 MB of parameters, 120 MB of persistent memory; three of them want 360 MB of a device
# that has 180 MB.
LARGE = ("--steps", 6, "--layers", 18, "--width", 744)


def turns(program: Program) -> int:
    found = re.search(r"turns=(\d+)", program.lines[-1])
    assert found, program.story()
    return int(found[1])


def test_two_jobs_take_turns_and_lose_nothing(world: World, alone: Callable[..., list[str]]) -> None:
    first = world.job("train", "--name", "first", "--hold", "4", "--losses", world.losses("first"), *SMALL)
    first.expect("step 4")
    second = world.job("train", "--name", "second", "--losses", world.losses("second"), *SMALL)
    world.until("second", "waits")
    first.go_on()  # to the end of its step, where its turn ends because the second waits
    for job in (first, second):
        job.finishes()
    for name in ("first", "second"):
        assert world.losses(name).read_text().split() == alone("train", *SMALL)
    assert turns(first) > 1, first.story()
    assert all("steps=12" in job.lines[-1] for job in (first, second))


def test_a_program_without_a_line_of_hocket_takes_turns(world: World, alone: Callable[..., list[str]]) -> None:
    plain = world.run("train", "--plain", "--hold", "4", "--losses", world.losses("plain"), *SMALL)
    plain.expect("step 4")
    other = world.job("train", "--name", "other", "--losses", world.losses("other"), *SMALL)
    world.until("other", "waits")
    plain.go_on()
    plain.finishes()
    other.finishes()
    assert world.losses("plain").read_text().split() == alone("train", *SMALL)
    assert world.losses("other").read_text().split() == alone("train", *SMALL)
    assert turns(plain) > 1, plain.story()
    said = [line for line in plain.errors if line.startswith("hocket: job ")]
    assert len(said) == 1, plain.story()
    assert "optimizer hooks and DataLoader fetches" in said[0]


def test_loader_workers_are_no_jobs_and_print_nothing(world: World, alone: Callable[..., list[str]]) -> None:
    plain = world.run("train", "--plain", "--workers", 2, "--losses", world.losses("plain"), *SMALL)
    other = world.job("train", "--workers", 2, "--losses", world.losses("other"), *SMALL)
    plain.finishes()
    other.finishes()
    assert world.losses("plain").read_text().split() == alone("train", *SMALL)
    assert world.losses("other").read_text().split() == alone("train", *SMALL)
    assert sum(line.startswith("hocket: job ") for line in plain.errors) == 1, plain.story()


@pytest.mark.parametrize("forced", [False, True], ids=["only the overlap is spilled", "everything is spilled"])
def test_three_jobs_of_twice_the_device_train_bit_identically(
    world: World, alone: Callable[..., list[str]], forced: bool
) -> None:
    world.memory = "180MiB"
    variables = {"HOCKET_FORCE_SPILL": "1"} if forced else {}
    names = ("a", "b", "c")
    jobs = [world.job("train", "--name", n, "--losses", world.losses(n), *LARGE, **variables) for n in names]
    for job in jobs:
        job.finishes()
    for name in names:
        assert world.losses(name).read_text().split() == alone("train", *LARGE)


def test_a_job_starts_on_a_full_device(world: World, alone: Callable[..., list[str]]) -> None:
    world.memory = "180MiB"
    first = world.job("train", "--name", "first", "--hold", "2", "--losses", world.losses("first"), *LARGE)
    first.expect("step 2")  # the optimizer's state is there: the device is nearly full
    second = world.job("train", "--name", "second", "--losses", world.losses("second"), *LARGE)
    first.go_on()
    first.finishes()
    second.finishes()
    for name in ("first", "second"):
        assert world.losses(name).read_text().split() == alone("train", *LARGE)


def test_two_half_built_jobs_do_not_block_each_other(world: World, alone: Callable[..., list[str]]) -> None:
    world.memory = "180MiB"
    jobs = [world.job("half_built", "--name", name, "--losses", world.losses(name)) for name in ("a", "b")]
    for job in jobs:
        job.expect("half built")
    for job in jobs:
        job.go_on()
    for job in jobs:
        job.finishes()
    assert world.losses("a").read_text() == world.losses("b").read_text()


def test_two_threads_that_train_share_the_turn_of_their_process(world: World, alone: Callable[..., list[str]]) -> None:
    threads = world.job("two_threads", "--losses", world.losses("threads"))
    other = world.job("train", "--name", "other", "--losses", world.losses("other"), *SMALL)
    threads.finishes()
    other.finishes()
    assert world.losses("other").read_text().split() == alone("train", *SMALL)
    assert world.losses("threads").read_text().split() == alone("two_threads")


def test_an_evaluation_longer_than_the_training_lets_others_run(world: World, alone: Callable[..., list[str]]) -> None:
    evaluating = world.job("evaluate", "--until-told")
    evaluating.expect("evaluating")
    other = world.job("train", "--losses", world.losses("other"), *SMALL)
    other.finishes()
    evaluating.go_on()
    evaluating.finishes()
    assert world.losses("other").read_text().split() == alone("train", *SMALL)


def test_a_checkpoint_written_in_the_background_is_whole(world: World, alone: Callable[..., list[str]]) -> None:
    world.memory = "180MiB"
    saving = world.job("background_checkpoint", world.folder / "model.pt")
    other = world.job("train", "--name", "other", "--losses", world.losses("other"), *LARGE)
    saving.finishes()
    other.finishes()
    assert saving.lines[-1] == "the checkpoint is whole"
    assert world.losses("other").read_text().split() == alone("train", *LARGE)


def test_ranks_of_one_program_have_their_turns_together(world: World, alone: Callable[..., list[str]]) -> None:
    other = world.job("train", "--name", "other", "--losses", world.losses("other"), *SMALL)
    torchrun = (sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--standalone")
    script = str(PROGRAMS / "ddp.py")
    ranks = world.start(*hocket_command(), "run", "--", *torchrun, script, str(world.losses("ranks")))
    ranks.finishes()
    other.finishes()
    assert world.losses("other").read_text().split() == alone("train", *SMALL)
    single = world.start(*torchrun, script, str(world.losses("single")))
    single.finishes()
    assert world.losses("ranks").read_text() == world.losses("single").read_text()
