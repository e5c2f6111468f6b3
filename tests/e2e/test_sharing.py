"""Two and more trainings on one device: they take turns, and their losses are what they are alone."""

from __future__ import annotations

import os
import pathlib
import re
import signal
import sys
from collections.abc import Callable

import pytest
from world import LARGE, LARGE_BYTES, PROGRAMS, SMALL, Program, World, hocket_command


@pytest.mark.one_torch
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
    assert first.counted("turns") > 1, first.story()
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
    assert plain.counted("turns") > 1, plain.story()
    said = [line for line in plain.errors if line.startswith("hocket: job ")]
    assert len(said) == 1, plain.story()
    assert "optimizer hooks and DataLoader fetches" in said[0]


def test_a_child_that_uses_the_device_in_a_step_that_was_found_has_its_turns(
    world: World, alone: Callable[..., list[str]]
) -> None:
    parent = world.run(
        "train", "--plain", "--losses", world.losses("parent"), "--child-losses", world.losses("child"), *SMALL
    )
    parent.finishes()
    for name in ("parent", "child"):
        assert world.losses(name).read_text().split() == alone("train", *SMALL)


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
    world.memory = "168MiB"
    assert 3 * LARGE_BYTES > 2 * 168 * 2**20
    variables = {"HOCKET_FORCE_SPILL": "1"} if forced else {}

    def start(name: str) -> Program:
        how = ("--name", name, "--hold", "0", "--losses", world.losses(name))
        return world.job("train", *how, *LARGE, **variables)

    # Each has its first turn while another waits, and steps left for the time when all three want theirs.
    jobs = {"a": start("a")}
    for holder, newcomer in (("a", "b"), ("b", "c")):
        jobs[holder].expect("step 0")
        jobs[newcomer] = start(newcomer)
        world.until(newcomer, "waits")
        assert world.hocket("pause", holder).returncode == 0
        jobs[holder].go_on()
    jobs["c"].expect("step 0")
    for name in ("a", "b"):
        assert world.hocket("resume", name).returncode == 0
        world.until(name, "waits")
    jobs["c"].go_on()
    for name, job in jobs.items():
        job.finishes()
        assert job.counted("turns") > 1, job.story()
        assert world.losses(name).read_text().split() == alone("train", *LARGE)
        if forced:  # at every step that has the optimizer's state before it
            assert job.counted("restored_total") >= 5 * LARGE_BYTES, job.story()
    assert sum(job.counted("spilled_total") for job in jobs.values()) > LARGE_BYTES


@pytest.mark.one_torch
def test_a_job_starts_on_a_full_device(world: World, alone: Callable[..., list[str]]) -> None:
    world.memory = "180MiB"
    first = world.job("train", "--name", "first", "--hold", "2", "--losses", world.losses("first"), *LARGE)
    first.expect("step 2")  # the optimizer's state is there: the device is nearly full
    second = world.job("train", "--name", "second", "--losses", world.losses("second"), *LARGE)
    world.until("second", "waits")
    assert world.hocket("pause", "first").returncode == 0  # or it may have ended before the second needs room
    first.go_on()
    second.expect("step 2")
    assert world.hocket("resume", "first").returncode == 0
    first.finishes()
    second.finishes()
    for name in ("first", "second"):
        assert world.losses(name).read_text().split() == alone("train", *LARGE)
    assert first.counted("turns") > 1, first.story()
    assert first.counted("spilled_total") + second.counted("spilled_total") > 0


def test_a_job_that_waits_for_its_loader_is_moved_out_of_the_way(
    world: World, alone: Callable[..., list[str]], tmp_path: pathlib.Path
) -> None:
    world.memory = "180MiB"
    fifo = tmp_path / "batch"
    os.mkfifo(fifo)
    loads = world.job(
        *("train", "--name", "loads", "--workers", 1, "--data-from", fifo, "--losses", world.losses("loads"), *LARGE)
    )
    loads.expect("step 2")
    other = world.job("train", "--name", "other", "--losses", world.losses("other"), *LARGE)
    other.finishes()  # all its steps, on a device that cannot hold both, while the first one's batch does not come
    with open(fifo, "wb"):
        pass
    loads.finishes()
    for name in ("loads", "other"):
        assert world.losses(name).read_text().split() == alone("train", *LARGE)
    assert loads.counted("spilled_total") > 0


@pytest.mark.one_torch
def test_two_half_built_jobs_do_not_block_each_other(world: World, alone: Callable[..., list[str]]) -> None:
    world.memory = "180MiB"
    jobs = [world.job("half_built", "--hold", "--name", name, "--losses", world.losses(name)) for name in ("a", "b")]
    for job in jobs:
        job.expect("half built")  # 150 MB: no third half fits
    for job in jobs:
        job.go_on()
    for name, job in zip(("a", "b"), jobs, strict=True):
        job.finishes()
        assert world.losses(name).read_text().split() == alone("half_built")
    assert sum(job.counted("spilled_total") for job in jobs) > 0


def test_two_threads_that_train_share_the_turn_of_their_process(world: World, alone: Callable[..., list[str]]) -> None:
    other = world.job("train", "--name", "other", "--hold", "4", "--losses", world.losses("other"), *SMALL)
    other.expect("step 4")
    threads = world.job("two_threads", "--losses", world.losses("threads"))
    world.until("two-threads", "waits")
    other.go_on()
    threads.finishes()
    other.finishes()
    assert other.counted("turns") > 1, other.story()
    assert world.losses("other").read_text().split() == alone("train", *SMALL)
    assert world.losses("threads").read_text().split() == alone("two_threads")


@pytest.mark.one_torch
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
    saving = world.job("background_checkpoint", world.folder / "model.pt", "2")
    saving.expect("saving")
    other = world.job("train", "--name", "other", "--losses", world.losses("other"), *LARGE)
    world.until("other", "waits", "holds")
    saving.go_on()
    saving.finishes()
    other.finishes()
    assert saving.lines[-1] == "the checkpoint is whole"
    assert world.losses("other").read_text().split() == alone("train", *LARGE)


# The thread that saves waits for the turn, the one that has trained waits for it in the program's own code: until
# both are through nothing of the job can be moved. So the other, which lacks room in the midst of its first step, must
# let it go first.
@pytest.mark.one_torch
def test_a_job_that_cannot_be_moved_before_it_has_a_turn_has_one(world: World, alone: Callable[..., list[str]]) -> None:
    world.memory = "180MiB"
    saving = world.job("background_checkpoint", world.folder / "model.pt", "5")
    saving.expect("trained")
    other = world.job("train", "--name", "other", "--losses", world.losses("other"), *LARGE)
    world.until_why("other", "of room; saving holds")
    saving.go_on()
    saving.finishes()
    other.finishes()
    assert saving.lines[-1] == "the checkpoint is whole"
    assert other.counted("turns") > 1, other.story()
    assert world.losses("other").read_text().split() == alone("train", *LARGE)


def test_ranks_of_one_program_have_their_turns_together(world: World, alone: Callable[..., list[str]]) -> None:
    other = world.job("train", "--name", "other", "--hold", "4", "--losses", world.losses("other"), *SMALL)
    other.expect("step 4")
    torchrun = (sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--standalone")
    script = str(PROGRAMS / "ddp.py")
    ranks = world.start(*hocket_command(), "run", "--", *torchrun, script, str(world.losses("ranks")))
    world.until_all(lambda jobs: list(jobs.values()).count("waits") == 2, "both ranks waiting")
    other.go_on()
    ranks.finishes()
    other.finishes()
    assert world.losses("other").read_text().split() == alone("train", *SMALL)
    assert other.counted("turns") > 1, other.story()
    had: dict[str, set[int]] = {}
    for turn in world.turns():
        had.setdefault(turn["name"], set()).add(turn["turn"])
    first, second = (numbers for name, numbers in had.items() if name != "other")
    assert first & second, had  # one turn for both, not one after the other
    single = world.start(*torchrun, script, str(world.losses("single")))
    single.finishes()
    assert world.losses("ranks").read_text() == world.losses("single").read_text()


# On each device there is room for one of them and a little more: all of the gang's ranks move, or none.
@pytest.mark.one_torch
def test_a_gang_over_two_devices_and_a_single_job_that_do_not_fit_together(
    world: World, alone: Callable[..., list[str]]
) -> None:
    world.devices, world.memory = 2, "168MiB"
    other = world.job("train", "--name", "other", "--hold", "2", "--losses", world.losses("other"), *LARGE)
    other.expect("step 2")
    torchrun = (sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--standalone")
    script = (str(PROGRAMS / "ddp.py"), str(world.losses("ranks")), "10", "744")
    ranks = world.start(*hocket_command(), "run", "--", *torchrun, *script)
    # The one on the other device may have begun before it was a rank.
    world.until_all(lambda jobs: len(jobs) == 3 and "waits" in jobs.values(), "the ranks there, and one waiting")
    assert world.hocket("pause", "other").returncode == 0  # or it may have ended before the ranks need its room
    other.go_on()
    world.until_spilled("other")
    assert world.hocket("resume", "other").returncode == 0
    ranks.finishes()
    other.finishes()
    assert world.losses("other").read_text().split() == alone("train", *LARGE)
    assert any(turn["restored"] + turn["ahead"] > 0 for turn in world.turns()), "nobody had to go"
    both = [turn for turn in world.turns() if turn["name"] != "other"]
    had = [{turn["turn"] for turn in both if turn["name"] == name} for name in {turn["name"] for turn in both}]
    assert len(had) == 2 and had[0] & had[1], both
    single = world.start(*torchrun, str(PROGRAMS / "ddp.py"), str(world.losses("single")), "10", "744")
    single.finishes()
    assert world.losses("ranks").read_text() == world.losses("single").read_text()


# A rank is known as one of a gang when the last of them first uses its device. Until then each may begin alone.
@pytest.mark.one_torch
def test_two_gangs_that_begin_crosswise_on_two_devices_go_on(world: World) -> None:
    world.devices = 2

    def start(name: str, rank: int, device: int) -> Program:
        return world.job("meets", name, rank, f"cuda:{device}", "--store", world.folder / name[0])

    a0, a1, b0, b1 = (start(gang + str(rank), rank, rank) for gang in "ab" for rank in (0, 1))
    for rank in (a0, a1, b0, b1):
        rank.expect("met")
    for first in (a1, b0):  # each in a step that its fellow has to end with it, on the device that the other's needs
        first.go_on()
        first.expect("step 0")
    for second in (a0, b1):
        second.go_on()
    for rank, own in ((a0, 1), (a1, 2), (b0, 1), (b1, 2)):
        rank.finishes()
        assert rank.lines[-1] == f"done {64 * 64 * (own + 3 + 9 + 27 + 81)}.0"
    assert "stands aside" in world.hocket("logs").stdout


# What a job takes from the system for spilled bytes: chunks of host memory, or a piece where these cannot be mapped.
@pytest.mark.parametrize(
    ("maps", "host_memory"),
    [("1", r"memory rw-s \d+ /memfd:hocket-[0-9a-f]+--1-"), ("0", f"memory rw-p {256 * 2**20} $")],
    ids=["mapped", "packed"],
)
def test_a_forked_child_carries_no_socket_lock_spilled_bytes_or_device_memory(
    world: World, alone: Callable[..., list[str]], maps: str, host_memory: str
) -> None:
    forking = world.job("forks", HOCKET_FORCE_SPILL="1", HOCKET_EMULATOR_HOST_MAPPING=maps)
    forking.expect("forked")
    other = world.job("train", "--name", "other", "--losses", world.losses("other"), *SMALL)
    world.until("other", "waits")

    def has(who: str, what: str) -> bool:
        return any(re.match(f"{who} {what}", line) for line in forking.lines)

    for what in (r"descriptor socket:", r"descriptor .*/lane-", r"descriptor /memfd:hocket-[0-9a-f]+-", host_memory):
        assert has("parent", what), f"this test looks for the wrong thing: {what}"
        assert not has("child", what), forking.story()
    # It outlives its killed parent, and the turn goes on all the same.
    forking.signal(signal.SIGKILL)
    other.finishes()
    assert world.losses("other").read_text().split() == alone("train", *SMALL)
    forking.go_on()
    forking.expect("the child ends")


@pytest.mark.parametrize("allocator", ["hocket", "native"])
def test_children_forked_before_the_gpu_was_used_are_jobs_like_any_other(world: World, allocator: str) -> None:
    script = str(PROGRAMS / "forks_first.py")
    world.start(sys.executable, script, "--losses", str(world.losses("plain"))).finishes()
    shared = world.run("forks_first", "--losses", world.losses("shared"), HOCKET_ALLOCATOR=allocator).finishes()
    for number in "01":
        plain, losses = (world.folder / f"{name}.losses.{number}" for name in ("plain", "shared"))
        assert losses.read_text() == plain.read_text()
        said = next(line for line in shared.lines if line.startswith(f"child {number}"))
        found = re.fullmatch(r"child . held (\d+) after 3 steps, (\d+) at the end, steps=(\d+)", said)
        assert found and found[1] == found[2], said  # what is freed there is free
        assert int(found[3]) >= 11, said


@pytest.mark.parametrize("when", ["started", "in-a-step"])
def test_children_that_train_on_the_cpu_are_left_alone(world: World, when: str) -> None:
    assert "done" in world.run("forks_for_the_cpu", when).finishes().lines
