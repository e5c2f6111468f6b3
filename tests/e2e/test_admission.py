"""Jobs that exceed device and host memory together: who trains goes on, the other waits or is told why it cannot."""

from __future__ import annotations

from collections.abc import Callable

from world import LARGE, SMALL, Program, World

LITTLE_HOST = {"HOCKET_HOST_BUDGET": str(24 << 20)}


def one_trains(world: World, *arguments: object) -> Program:
    """114 MiB of it stay, on a device of 180 MiB; its host memory takes 24 MiB."""
    world.memory = "180MiB"
    first = world.job("train", "--name", "first", "--losses", world.losses("first"), *arguments, **LITTLE_HOST)
    first.expect("step 2")
    return first


def second_one(world: World) -> Program:
    """Another one like that."""
    return world.job("train", "--name", "second", "--losses", world.losses("second"), *LARGE, **LITTLE_HOST)


def test_who_trains_goes_on_beside_one_that_does_not_fit(world: World, alone: Callable[..., list[str]]) -> None:
    first = one_trains(world, "--hold", "2", *LARGE)
    second = second_one(world)
    world.until("second", "waits")
    first.go_on()
    first.finishes()
    second.wait()  # it has waited, or has been told no
    assert second.process.returncode == 0 or "cannot make room for" in second.stderr, second.story()
    assert world.losses("first").read_text().split() == alone("train", *LARGE)


def test_what_can_never_fit_is_told_so(world: World, alone: Callable[..., list[str]]) -> None:
    world.memory = "100MiB"
    first = world.job("train", "--name", "first", "--hold", "2", "--losses", world.losses("first"), *SMALL)
    first.expect("step 2")
    second = world.job("train", "--name", "second", *LARGE)
    first.go_on()
    assert second.wait() == 1, second.story()
    assert "OutOfMemoryError" in second.stderr, second.story()
    first.finishes()
    assert world.losses("first").read_text().split() == alone("train", *SMALL)
