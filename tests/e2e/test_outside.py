"""Device memory that no allocator sees, where jobs fill the device together: a newcomer's context, and what a program
makes later (side streams here; a library's handle takes as much)."""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest
from world import SMALL, Program, World, emulation, hocket_command

MIB = 1 << 20
EACH_STEP_A_TURN = {"HOCKET_POLICY": "fifo", "HOCKET_SWITCH_SHARE": "1"}


def test_a_job_begins_where_another_one_has_filled_the_device(world: World, alone: Callable[..., list[str]]) -> None:
    world.memory = "140MiB"
    world.environment |= {"HOCKET_EMULATOR_CONTEXT_MEMORY": "36MiB", "HOCKET_EMULATOR_CONTEXT_MS": "60"}
    world.environment |= EACH_STEP_A_TURN
    first = world.job("late_stream", "first", 80, "before")
    first.expect("held")
    second = world.job("train", "--name", "second", "--losses", world.losses("second"), *SMALL)
    world.until("second", "waits")
    first.go_on()
    second.finishes()
    first.expect("kept")
    assert first.finishes().counted("spilled_total") > 0
    assert world.losses("second").read_text().split() == alone("train", *SMALL)


PLAIN = """
import sys
import torch
FIRST
x = torch.arange(1000, device="cuda")
assert x.sum().item() == 499500
print("began", flush=True)
"""


@pytest.mark.parametrize(
    "first", ["torch.cuda.set_device(1)", "with torch.cuda.device(1): torch.cuda.current_stream()"]
)
def test_a_plain_program_begins_there_whatever_it_asks_first(world: World, first: str) -> None:
    """With Python's lock held in the call that makes the context, which takes its time; Hocket's own threads ask for
    things meanwhile."""
    world.memory, world.devices = "140MiB", 2
    world.environment |= {"HOCKET_EMULATOR_CONTEXT_MEMORY": "36MiB", "HOCKET_EMULATOR_CONTEXT_MS": "60"}
    world.environment |= EACH_STEP_A_TURN
    holder = world.job("late_stream", "first", 80, "before", "cuda:1")
    holder.expect("held")
    program = PLAIN.replace("FIRST", first)
    second = world.start(*hocket_command(), "run", "--name", "second", "--", sys.executable, "-c", program)
    world.until("second", "waits")
    holder.go_on()
    second.expect("began")
    second.finishes()
    holder.expect("kept")
    assert holder.finishes().counted("spilled_total") > 0


def test_a_job_that_can_never_begin_is_told_who_holds_what(world: World) -> None:
    world.memory = "100MiB"
    first = world.job("train", "--name", "first", "--hold", "2", *SMALL)
    first.expect("step 2")
    second = world.job("train", "--name", "second", *SMALL, HOCKET_EMULATOR_CONTEXT_MEMORY="110MiB")
    first.go_on()
    assert second.wait() == 1
    assert "cuDevicePrimaryCtxRetain" in second.stderr and "cannot make room for 12.5 MiB" in second.stderr
    first.finishes()


def two_that_do_not_fit(world: World) -> tuple[Program, Program]:
    """The second one is in its turn; of the first, so many bytes have gone."""
    world.memory = "128MiB"
    # PyTorch makes 32 streams of each priority together.
    world.environment |= {"HOCKET_EMULATOR_STREAM_MEMORY": "128KiB", **EACH_STEP_A_TURN}
    first = world.job("late_stream", "first", 80, "in")
    first.expect("held")
    second = world.job("late_stream", "second", 80, "in")
    world.until("second", "waits")
    first.go_on()
    first.expect("made")
    second.expect("held")
    return first, second


def test_a_program_may_make_streams_where_jobs_fill_the_device(world: World) -> None:
    world.environment["HOCKET_HEADROOM"] = "24MiB"
    first, second = two_that_do_not_fit(world)
    patience, spilled = world.patience(), 0
    while spilled < 72 * MIB:
        patience.look(f"room for both and the headroom: {spilled} bytes spilled")
        spilled = max(job["spilled"] for job in world.status()["jobs"])
    second.go_on()
    second.expect("made")
    for job in (second, first):
        job.expect("kept")
        job.finishes()


@pytest.mark.parametrize("headroom", ["a lot", "65MiB"])
def test_a_headroom_that_cannot_be_kept_is_refused(world: World, headroom: str) -> None:
    world.memory = "128MiB"
    job = world.job("late_stream", "a", 10, "in", HOCKET_HEADROOM=headroom)
    assert job.wait() == 1
    assert "HOCKET_HEADROOM" in job.stderr


def test_a_device_whose_compute_mode_is_for_one_process_says_so(world: World) -> None:
    """Where jobs cannot share it, the second hears how they could, and the first goes on."""
    world.environment |= {"HOCKET_EMULATOR_EXCLUSIVE": "1"}
    first = world.job("train", "--name", "first", "--hold", "2", "--losses", world.losses("first"), *SMALL)
    first.expect("step 2")
    program = PLAIN.replace("FIRST", "")
    second = world.start(*hocket_command(), "run", "--name", "second", "--", sys.executable, "-c", program)
    assert second.wait() == 1, second.story()
    assert "busy or unavailable" in second.stderr, "PyTorch's own words"
    assert "the compute mode of device 0 lets only one process at a time use it" in second.stderr
    assert "nvidia-smi -i 0 -c DEFAULT" in second.stderr
    doctor = world.hocket("doctor", **emulation("--name", world.name))
    assert "lets only one process at a time use it" in doctor.stdout, doctor.stdout
    first.go_on()
    first.finishes()
