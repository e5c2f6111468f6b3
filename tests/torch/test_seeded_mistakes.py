"""Mistakes that Hocket must not make, seeded in real trainings and found by check mode.

That the suites pass in check mode says something only because these are found.
"""

from __future__ import annotations

import sys

import pytest
from world import PROGRAMS, World

STEPS = ("--steps", 8, "--layers", 2, "--width", 256)


def test_a_missing_drain_before_a_hand_over_is_found(world: World) -> None:
    """The arena passes to the next job while kernels of the last one may still use it."""
    careless = world.start(
        sys.executable, str(PROGRAMS / "without.py"), "cuEventSynchronize", "train.py", "--name", "careless",
        "--hold", "built", *map(str, STEPS),
    )  # fmt: skip
    other = world.job("train", "--name", "other", "--hold", "built", *STEPS)
    for job in (careless, other):
        job.expect("built")
    for job in (careless, other):
        job.go_on()
    statuses = [careless.wait(), other.wait()]
    said = careless.stderr + other.stderr
    assert any(statuses), said
    assert "uses without order" in said


SIDE_STREAM = """
import hocket, torch
side, large = torch.cuda.Stream(), 1 << 20
x = torch.ones(large, device="cuda")
side.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(side):
    y = x * 2
{between}
del x
z = torch.full((large,), 3.0, device="cuda")
torch.cuda.synchronize()
print("done", flush=True)
"""


def test_a_missing_record_stream_is_found(world: World) -> None:
    """A block is given out again while another stream still reads it."""
    program = world.start(sys.executable, "-c", SIDE_STREAM.format(between=""))
    assert program.wait() != 0
    assert "uses without order" in program.stderr
    assert "aten::mul" in program.stderr


@pytest.mark.parametrize("between", ["x.record_stream(side)", "torch.cuda.current_stream().wait_stream(side)"])
def test_a_recorded_block_waits_for_its_stream(world: World, between: str) -> None:
    world.start(sys.executable, "-c", SIDE_STREAM.format(between=between)).finishes()
