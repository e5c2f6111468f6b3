"""Trainings that keep PyTorch's native allocator: they take turns and are moved as the others are."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from world import LARGE, LARGE_BYTES, SMALL, World

NATIVE = {"HOCKET_ALLOCATOR": "native"}


@pytest.mark.parametrize(
    ("how", "forced"),
    [("native", False), ("native", True), ("late", True)],
    ids=["alone", "everything is spilled", "CUDA has started, and everything is spilled"],
)
def test_the_losses_are_the_same_alone_and_spilled_at_every_step(
    world: World, alone: Callable[..., list[str]], how: str, forced: bool
) -> None:
    variables = {"HOCKET_FORCE_SPILL": "1"} if forced else {}
    variables |= NATIVE if how == "native" else {}
    late = ["--late"] if how == "late" else []
    job = world.job("train", *late, "--losses", world.losses("job"), *LARGE, **variables)
    job.finishes()
    assert world.losses("job").read_text().split() == alone("train", *LARGE)
    if forced:  # at every step that has the optimizer's state before it
        assert job.counted("restored_total") >= 5 * LARGE_BYTES, job.story()
    else:
        assert job.counted("spilled_total") == 0, job.story()


@pytest.mark.parametrize("second", ["native", "hocket"])
def test_two_jobs_that_do_not_fit_together_take_turns_and_lose_nothing(
    world: World, alone: Callable[..., list[str]], second: str
) -> None:
    world.memory = "220MiB"
    assert 2 * LARGE_BYTES > 220 * 2**20
    first = world.job("train", "--name", "a", "--hold", "2", "--losses", world.losses("a"), *LARGE, **NATIVE)
    first.expect("step 2")  # the optimizer's state is there: no second one fits
    other = world.job("train", "--name", "b", "--losses", world.losses("b"), *LARGE, HOCKET_ALLOCATOR=second)
    world.until("b", "waits")
    assert world.hocket("pause", "a").returncode == 0  # or it may have ended before the second needs room
    first.go_on()
    other.expect("step 2")
    assert world.hocket("resume", "a").returncode == 0
    for name, job in (("a", first), ("b", other)):
        job.finishes()
        assert world.losses(name).read_text().split() == alone("train", *LARGE)
    assert first.counted("turns") > 1, first.story()
    assert first.counted("spilled_total") + other.counted("spilled_total") > 0, first.story()


def test_a_notebook_like_program_and_another_job_share_a_full_device(
    world: World, alone: Callable[..., list[str]]
) -> None:
    world.memory = "220MiB"
    late = world.job("train", "--late", "--name", "late", "--hold", "2", "--losses", world.losses("late"), *LARGE)
    late.expect("step 2")
    other = world.job("train", "--name", "other", "--losses", world.losses("other"), *LARGE)
    world.until("other", "waits")
    assert world.hocket("pause", "late").returncode == 0  # as above
    late.go_on()
    other.expect("step 2")
    assert world.hocket("resume", "late").returncode == 0
    for name, job in (("late", late), ("other", other)):
        job.finishes()
        assert world.losses(name).read_text().split() == alone("train", *LARGE)
    assert late.counted("turns") > 1, late.story()
    assert late.counted("spilled_total") + other.counted("spilled_total") > 0
    said = [line for line in late.errors if "before hocket was imported" in line]
    assert len(said) == 1, late.story()
    assert "the 2.0 MiB that PyTorch held" in said[0]


def test_a_program_without_a_line_of_hocket_keeps_its_allocator(world: World, alone: Callable[..., list[str]]) -> None:
    plain = world.run("train", "--plain", "--hold", "4", "--losses", world.losses("plain"), *SMALL, **NATIVE)
    plain.expect("step 4")
    other = world.job("train", "--name", "other", "--losses", world.losses("other"), *SMALL)
    world.until("other", "waits")
    plain.go_on()
    plain.finishes()
    other.finishes()
    assert world.losses("plain").read_text().split() == alone("train", *SMALL)
    assert world.losses("other").read_text().split() == alone("train", *SMALL)
    assert plain.counted("turns") > 1, plain.story()


def test_an_allocation_that_the_cache_could_serve_waits_for_the_turn_too(
    world: World, alone: Callable[..., list[str]]
) -> None:
    cached = world.job("from_cache", **NATIVE)
    cached.expect("cached")
    other = world.job("train", "--name", "other", "--hold", "2", "--losses", world.losses("other"), *SMALL)
    other.expect("step 2")
    cached.go_on()
    world.until("from-cache", "waits")
    other.go_on()
    cached.finishes()
    other.finishes()
    assert cached.lines[-1] == "segments=1"
    assert world.losses("other").read_text().split() == alone("train", *SMALL)


def test_a_thread_that_writes_a_checkpoint_waits_for_the_turn_like_any_other(
    world: World, alone: Callable[..., list[str]]
) -> None:
    world.memory = "260MiB"
    saving = world.job("background_checkpoint", world.folder / "model.pt", "2", **NATIVE)
    saving.expect("saving")
    other = world.job("train", "--name", "other", "--losses", world.losses("other"), *LARGE, **NATIVE)
    other.expect("built")
    saving.go_on()
    saving.finishes()
    other.finishes()
    assert saving.lines[-1] == "the checkpoint is whole"
    assert world.losses("other").read_text().split() == alone("train", *LARGE)
