"""HOCKET_VERIFY=1 names an operator that uses memory of a job that is out of turn, and where that was allocated."""

from __future__ import annotations

import pathlib
import sys

import pytest
from world import Program, World

PROGRAMS = pathlib.Path(__file__).with_name("programs")
SAID = "HOCKET_VERIFY: memory on the host is used out of turn:"

# What the thread does, how it is named, and the sum that the job sees then.
STRAYS = {
    "reads one number": ("print('saw', weights[0, 0].item())", "aten::item", 3.0),
    "copies to the host": ("print('saw', weights[5, :4].cpu().sum().item() / 4)", "aten::_to_copy", 3.0),
    "writes": ("weights.mul_(2)", "aten::mul_", 6.0),
}
QUIET = {
    "looks at its shape": "print('saw', weights.view(-1)[7:].shape[0])",
    "allocates, and so waits": "threading.Thread(target=weights.sum).start()",
}


@pytest.fixture
def away(world: World):
    """Starts the job with the thread, and one whose step needs its memory; then the thread does what it does."""

    def start(operation: str, *visits: str, **variables: str) -> tuple[Program, Program]:
        world.memory = "256MiB"  # of which the other needs so much that nothing of the job's can stay
        world.check = False  # it would end the thread's work, for which nobody waits
        job = world.start(sys.executable, str(PROGRAMS / "logs_out_of_turn.py"), operation, *visits, **variables)
        job.expect("ready")
        other = world.start(sys.executable, str(PROGRAMS / "needs_room.py"))
        other.expect("holds")
        job.go_on()
        return job, other

    return start


@pytest.mark.parametrize("allocator", ["hocket", "native"])
@pytest.mark.parametrize(("operation", "name", "value"), STRAYS.values(), ids=STRAYS)
def test_a_use_of_spilled_memory_is_named(away, allocator: str, operation: str, name: str, value: float) -> None:
    job, other = away(operation, HOCKET_VERIFY="1", HOCKET_ALLOCATOR=allocator)
    if "saw" in operation:
        assert job.expect("saw") == "saw 3.0"
    other.go_on()
    other.finishes()
    job.finishes()
    assert job.lines[-1] == f"sum {value * 20 * 1024 * 1024}"
    assert job.stderr.count(SAID) == 1, job.stderr
    text = job.stderr[job.stderr.index(SAID) :]
    assert f"{SAID} {name} in thread" in text
    allocated, used = text.split("It is used at:")
    assert (
        "of memory of 80.0 MiB" in allocated
        and "That memory was allocated at:" in allocated
        and "in make_weights" in allocated
    )
    assert "in logger" in used and "in make_weights" not in used


def test_the_tensors_own_size_is_named(away) -> None:
    job, other = away("print('saw', weights[3].view(128, -1)[1:3].cpu().sum().item())", HOCKET_VERIFY="1")
    job.expect("saw")
    other.go_on()
    job.finishes()
    assert "uses a tensor of 1.2 KiB (Float, [2, 160]) at 0x" in job.stderr


@pytest.mark.parametrize("mapped", ["1", "0"], ids=["on the host", "nowhere"])
@pytest.mark.parametrize("operation", QUIET.values(), ids=QUIET)
def test_what_uses_no_spilled_memory_is_not(away, operation: str, mapped: str) -> None:
    job, other = away(operation, HOCKET_VERIFY="1", HOCKET_EMULATOR_HOST_MAPPING=mapped)
    other.go_on()
    job.finishes()
    assert SAID not in job.stderr


def test_without_the_debug_mode_nothing_is_said(away) -> None:
    job, other = away("print('saw', weights[0, 0].item())")
    assert job.expect("saw") == "saw 3.0"
    other.go_on()
    job.finishes()
    assert SAID not in job.stderr


def test_where_it_is_a_fault_it_is_named_before(away) -> None:
    variables = {"HOCKET_VERIFY": "1", "HOCKET_EMULATOR_HOST_MAPPING": "0"}
    job, other = away("print('saw', weights[0, 0].item())", **variables)
    other.go_on()
    job.wait()
    assert job.stderr.count(SAID) == 1, job.stderr
    assert "in make_weights" in job.stderr
    assert "it is a fault" in job.stderr


@pytest.mark.parametrize("allocator", ["hocket", "native"])
@pytest.mark.parametrize("mapped", ["1", "0"], ids=["on the host", "nowhere"])
@pytest.mark.parametrize(("operation", "_", "value"), STRAYS.values(), ids=STRAYS)
def test_a_thread_of_pythons_waits_until_what_it_uses_is_back(
    away, world: World, operation: str, _: str, value: float, mapped: str, allocator: str
) -> None:
    variables = {"HOCKET_VERIFY": "1", "HOCKET_EMULATOR_HOST_MAPPING": mapped, "HOCKET_ALLOCATOR": allocator}
    job, other = away(operation, "visits", **variables)
    world.until("logs_out_of_turn.py", "waits")
    other.go_on()
    if "saw" in operation:
        assert job.expect("saw") == "saw 3.0"
    job.finishes()
    other.finishes()
    assert job.lines[-1] == f"sum {value * 20 * 1024 * 1024}"
    assert SAID not in job.stderr
