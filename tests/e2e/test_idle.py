"""Programs that wait, for a queue, a process, a socket or their user: meanwhile others have their memory."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from world import LARGE, LARGE_BYTES, World

HELD = 30 << 20  # numbers: 120 MiB
SEEN = f"{HELD - 1} {HELD * (HELD - 1) // 2}"
GRADIENTS = f"2 {HELD // 3 * 2}"


@pytest.mark.parametrize(
    ("how", "mapped"),
    [
        *((how, "1") for how in ("queue", "backward", "pool", "process", "loop", "prompt")),
        *((how, "0") for how in ("queue", "backward")),  # a spilled address has nothing behind it
    ],
)
def test_who_waits_gives_its_memory_and_finds_it_again(
    world: World, alone: Callable[..., list[str]], how: str, mapped: str
) -> None:
    world.memory = "220MiB"
    assert HELD * 4 + LARGE_BYTES > 220 << 20
    variables = {"HOCKET_VERIFY": "1", "HOCKET_EMULATOR_HOST_MAPPING": mapped}
    idle = world.job("idles", how, HELD, **variables)
    idle.expect("idles")
    other = world.job("train", "--name", "other", "--hold", "3", "--losses", world.losses("other"), *LARGE)
    other.expect("step 3")  # the optimizer's state is there, so what is idle is on the host
    idle.go_on()
    world.until_all(lambda jobs: any(jobs[name] == "waits" for name in jobs if name != "other"), "it waits")
    other.go_on()
    idle.expect(GRADIENTS if how == "backward" else SEEN)
    idle.finishes()
    other.finishes()
    assert world.losses("other").read_text().split() == alone("train", *LARGE)
    assert "HOCKET_VERIFY" not in idle.stderr, idle.story()


def test_who_is_in_its_own_code_keeps_its_memory(world: World, alone: Callable[..., list[str]]) -> None:
    world.memory = "220MiB"
    idle = world.job("idles", "own code", HELD)
    idle.expect("idles")
    other = world.job("train", "--name", "other", "--losses", world.losses("other"), *LARGE)
    world.until_why("idle", "in the program's own code")
    world.until_why("other", "has been in one step for")  # five seconds: it has been looked at, twice
    assert {job["name"]: job["spilled"] for job in world.status()["jobs"]}["idle"] == 0
    idle.go_on()
    idle.expect(SEEN)
    idle.finishes()
    other.finishes()
    assert world.losses("other").read_text().split() == alone("train", *LARGE)


@pytest.mark.parametrize("mapped", ["1", "0"], ids=["on the host", "nowhere"])
def test_threads_that_wake_at_any_moment_find_what_they_have_left(world: World, mapped: str) -> None:
    world.memory = "160MiB"  # each holds 72 to 120 MiB
    jobs = [world.job("wakes", name, 5, HOCKET_EMULATOR_HOST_MAPPING=mapped) for name in ("first", "second")]
    for job in jobs:
        job.finishes()
        assert job.lines[-1] == "5 rounds"
