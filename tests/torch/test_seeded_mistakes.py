"""Mistakes that Hocket must not make, seeded in real trainings and found by check mode.

That the suites pass in check mode says something only because these are found.
"""

from __future__ import annotations

import sys

import pytest
from world import PROGRAMS, World


def shared(world: World, *function: str) -> tuple[list[int], str]:
    """Two jobs that never wait for the device take turns; in the first one a driver's function does nothing."""
    without = [sys.executable, str(PROGRAMS / "without.py"), *function, "never_waits.py", "first", "2"]
    first = world.start(*without) if function else world.job("never_waits", "first", "2")
    other = world.job("never_waits", "other")
    for job in (first, other):
        job.expect("built")
    first.go_on()
    first.expect("in step")
    other.go_on()
    world.until("other", "waits")
    first.go_on()
    return [job.wait() for job in (first, other)], "\n".join(job.stderr for job in (first, other))


def test_a_missing_drain_before_a_hand_over_is_found(world: World) -> None:
    """The arena passes to the next job while kernels of the last one may still use it."""
    statuses, said = shared(world, "cuEventSynchronize")
    assert any(statuses), said
    assert "uses without order" in said


def test_a_hand_over_with_its_drain_is_let_pass(world: World) -> None:
    statuses, said = shared(world)
    assert statuses == [0, 0], said


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
