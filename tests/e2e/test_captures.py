"""A CUDA graph is captured while another job waits for the turn, and for room that only the capturing one can give."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from world import LARGE, LARGE_BYTES, SMALL, World

HELD = 30 * 4 * 2**20  # by programs/captures.py
# How long the other one waits, in seconds. But for the capture it would have the turn by then: of a job that is away at
# once, and its room, too; of a step that was found and does not use it after a second.
LONGER = {"away": 1.0, "in a step": 2.5}


@pytest.mark.parametrize(
    ("where", "allocator", "mode"),
    [
        ("away", "hocket", "values"),
        ("away", "native", "timing"),
        ("in a step", "hocket", "timing"),
        ("in a step", "native", "values"),
    ],
)
def test_nothing_moves_until_the_capture_has_ended_and_the_graph_is_whole(
    world: World, alone: Callable[..., list[str]], where: str, allocator: str, mode: str
) -> None:
    world.memory, world.timing = "220MiB", mode == "timing"
    assert HELD + LARGE_BYTES > 220 * 2**20
    how = ("--hold", "--losses", world.losses("captures"))
    start = world.job if where == "away" else world.run
    plain = () if where == "away" else ("--plain",)
    capturing = start("captures", *how, *plain, HOCKET_ALLOCATOR=allocator, HOCKET_NAME="captures")
    capturing.expect("capturing")
    other = world.job("train", "--name", "other", "--losses", world.losses("other"), *LARGE)
    world.until_waited("other", LONGER[where])
    jobs = {job["name"]: job for job in world.status()["jobs"]}
    assert (jobs["captures"]["state"], jobs["other"]["state"]) == ("holds", "waits"), jobs
    assert world.hocket("pause", "captures").returncode == 0  # or it may have ended before the other needs its room
    capturing.go_on()
    assert capturing.expect("captured") == "captured spilled_total=0 restored_total=0", capturing.story()
    other.expect("step 2")
    assert world.hocket("resume", "captures").returncode == 0
    for job in (capturing, other):
        job.finishes()
    assert capturing.counted("restored_total") >= HELD + LARGE_BYTES - 220 * 2**20, capturing.story()
    if mode == "values":
        assert world.losses("captures").read_text().split() == alone("captures")
        assert world.losses("other").read_text().split() == alone("train", *LARGE)


@pytest.mark.parametrize("allocator", ["hocket", "native"])
def test_a_capture_that_has_failed_keeps_the_turn_from_nobody(
    world: World, alone: Callable[..., list[str]], allocator: str
) -> None:
    """Not every PyTorch says that the graph's pool is closed then (2.11)."""
    failing = world.job("failed_capture", "failing", HOCKET_ALLOCATOR=allocator)
    failing.expect("over")
    other = world.job("train", "--name", "other", "--losses", world.losses("other"), *SMALL)
    other.finishes()
    assert world.losses("other").read_text().split() == alone("train", *SMALL)
    failing.go_on()
    failing.finishes()
