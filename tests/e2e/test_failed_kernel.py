"""A kernel fails on the device (an index out of bounds is the usual one): CUDA then refuses all that its process asks,
until the process has ended. The program hears PyTorch's own words, and the other jobs go on."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from world import LARGE, LARGE_BYTES, SMALL, World

MIB = 1 << 20
both_allocators = pytest.mark.parametrize("allocator", ["hocket", "native"])


@both_allocators
@pytest.mark.parametrize("memory_calls", ["0", "1"], ids=["the driver unmaps", "the driver unmaps nothing"])
@pytest.mark.parametrize("seen", [True, False], ids=["in its step", "in the next one"])
def test_the_program_hears_pytorchs_words_and_the_others_go_on(
    world: World, alone: Callable[..., list[str]], allocator: str, memory_calls: str, seen: bool
) -> None:
    how = {"HOCKET_ALLOCATOR": allocator, "HOCKET_EMULATOR_LOST_MEMORY_CALLS": memory_calls}
    failing = world.job("failed_kernel", "failing", 1, *(["--seen"] if seen else []), **how)
    failing.expect("built")
    other = world.job("train", "--name", "other", "--losses", world.losses("other"), *SMALL)
    assert failing.wait() == 1, failing.story()
    assert "CUDA error: device-side assert triggered" in failing.stderr
    assert "internal error" not in failing.stderr
    other.finishes()
    assert world.losses("other").read_text().split() == alone("train", *SMALL)


@both_allocators
def test_a_program_that_lives_on_gives_its_turn(world: World, alone: Callable[..., list[str]], allocator: str) -> None:
    """A notebook, a debugger, a clean-up that takes its time."""
    failing = world.job("failed_kernel", "failing", 1, "--catch", HOCKET_ALLOCATOR=allocator)
    assert int(failing.expect("caught").split()[1]) >= 4
    other = world.job("train", "--name", "other", "--losses", world.losses("other"), *SMALL)
    other.finishes()
    assert world.losses("other").read_text().split() == alone("train", *SMALL)
    failing.go_on()
    failing.finishes()


@both_allocators
def test_who_needs_its_memory_waits_for_its_end_and_hears_why(
    world: World, alone: Callable[..., list[str]], allocator: str
) -> None:
    world.memory = f"{LARGE_BYTES // MIB + 80}MiB"
    failing = world.job("failed_kernel", "failing", 72, "--catch", HOCKET_ALLOCATOR=allocator)
    failing.expect("caught")
    other = world.job("train", "--name", "other", "--losses", world.losses("other"), *LARGE)
    world.until_why("other", "a kernel of its has failed on the device, CUDA_ERROR_ASSERT (710)")
    failing.go_on()
    failing.finishes()
    other.finishes()
    assert world.losses("other").read_text().split() == alone("train", *LARGE)
