"""However a job ends, the turn goes on to the others; and a program under Hocket ends as it does without."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable

import pytest
from world import LARGE, PROGRAMS, SMALL, Program, World, hocket_command


def two(world: World, *how: object) -> tuple[Program, Program]:
    """A job that will end in its step 4, and one that must go on. Both are built; neither has begun."""
    ending = world.job("train", "--name", "ending", "--hold", "built", *SMALL, *how)
    other = world.job("train", "--name", "other", "--hold", "built", "--losses", world.losses("other"), *SMALL)
    ending.expect("built")
    other.expect("built")
    return ending, other


@pytest.mark.parametrize(
    ("how", "status"),
    [("raise", 1), ("sys.exit", 3), ("exit", 9), ("kill", -signal.SIGKILL)],
    ids=["an exception", "sys.exit", "os._exit", "kill -9"],
)
def test_a_job_that_ends_in_its_step_gives_the_turn_on(
    world: World, alone: Callable[..., list[str]], how: str, status: int
) -> None:
    ending, other = two(world, "--end", how, "--at", 4)
    ending.go_on()
    other.go_on()
    assert ending.wait() == status, ending.story()
    other.finishes()
    assert world.losses("other").read_text().split() == alone("train", *SMALL)
    turns = world.turns()
    assert sum(turn["steps"] for turn in turns if turn["name"] == "ending") == 4, turns


def test_ctrl_c_in_a_step_gives_the_turn_on(world: World, alone: Callable[..., list[str]]) -> None:
    ending = world.job("train", "--name", "ending", "--hold", "4", *SMALL)
    ending.expect("step 4")
    other = world.job("train", "--name", "other", "--losses", world.losses("other"), *SMALL)
    world.until("other", "waits")
    ending.signal(signal.SIGINT)
    assert ending.wait() == -signal.SIGINT, ending.story()
    assert "KeyboardInterrupt" in ending.stderr
    other.finishes()
    assert world.losses("other").read_text().split() == alone("train", *SMALL)


def test_ctrl_c_ends_a_job_that_waits_for_its_turn(world: World) -> None:
    holding = world.job("train", "--name", "holding", "--hold", "4", *SMALL)
    holding.expect("step 4")
    waiting = world.job("wait_for_turn")
    waiting.expect("asking")
    waiting.signal(signal.SIGINT)
    assert waiting.wait() == -signal.SIGINT, waiting.story()
    holding.go_on()
    holding.finishes()


def _is_interrupted_and_saves(world: World, waiting: Program, holding: Program) -> None:
    """``waiting``, which asks for what it cannot have while ``holding`` has the turn, hears Ctrl-C and goes on."""
    waiting.go_on()
    waiting.expect("asking")
    world.until("a", "waits")
    waiting.signal(signal.SIGINT)
    waiting.expect("interrupted")
    holding.go_on()
    holding.finishes()
    waiting.go_on()
    assert waiting.expect("saved") == "saved 200 steps=2"
    waiting.finishes()


def _moved_while_away(world: World, *flags: str, **variables: str) -> tuple[Program, Program]:
    """``a``, which is away, its memory on the host; and who has the turn, and the room that ``a`` needs."""
    world.memory = "300MiB"
    away = world.job("interrupted", "away", *flags, **variables)
    away.expect("built")
    away.go_on()
    away.expect("away")
    holding = world.job("train", "--name", "holding", "--hold", "4", *LARGE)
    holding.expect("step 4")
    world.until_spilled("a")
    return away, holding


@pytest.mark.parametrize("allocator", ["hocket", "native"])
def test_ctrl_c_ends_an_allocation_that_waits_for_its_turn(world: World, allocator: str) -> None:
    waiting = world.job("interrupted", "allocation", HOCKET_ALLOCATOR=allocator)
    waiting.expect("built")
    holding = world.job("train", "--name", "holding", "--hold", "4", *SMALL)
    holding.expect("step 4")
    _is_interrupted_and_saves(world, waiting, holding)


def test_ctrl_c_ends_a_wait_for_what_was_moved_while_the_program_was_away(world: World) -> None:
    waiting, holding = _moved_while_away(world)
    _is_interrupted_and_saves(world, waiting, holding)


def test_ctrl_c_while_a_steps_bytes_come_back_leaves_no_step_open(world: World) -> None:
    program = world.job("interrupted", "restore", HOCKET_FORCE_SPILL="1")
    program.expect("built")
    program.go_on()
    program.expect("interrupted")
    program.go_on()
    assert program.expect("saved") == "saved 200 steps=2"
    program.finishes()


def test_a_handler_may_save_in_a_step_of_its_own_while_its_program_waits(world: World) -> None:
    waiting = world.job("interrupted", "allocation", "--handler")
    waiting.expect("built")
    holding = world.job("train", "--name", "holding", "--hold", "4", *SMALL)
    holding.expect("step 4")
    waiting.go_on()
    waiting.expect("asking")
    world.until("a", "waits")
    waiting.signal(signal.SIGTERM)
    waiting.expect("handling")
    holding.go_on()
    assert waiting.expect("handled") == "handled 200 steps=2"
    waiting.expect("had its turn")
    holding.finishes()
    waiting.go_on()
    assert waiting.expect("saved") == "saved 200 steps=3"
    waiting.finishes()


UNAWARE = {"HOCKET_VERIFY": "1"}  # who uses memory that is not there is named


def _has_used_nothing_out_of_turn(program: Program) -> None:
    program.finishes()
    assert "out of turn" not in program.stderr, program.story()


@pytest.mark.parametrize("where", ["away", "waiting"])
def test_a_handler_that_knows_nothing_of_steps_finds_its_memory_back(world: World, where: str) -> None:
    program, holding = _moved_while_away(world, "--handler", "--no-step", **UNAWARE)
    if where == "waiting":
        program.go_on()
        program.expect("asking")
        world.until("a", "waits")
    program.signal(signal.SIGTERM)
    program.expect("handling")
    world.until("a", "waits")
    holding.go_on()
    assert program.expect("handled") == "handled 200 steps=1"
    if where == "away":
        program.go_on()
    program.expect("had its turn")
    program.go_on()
    assert program.expect("saved") == "saved 200 steps=1"
    _has_used_nothing_out_of_turn(program)
    holding.finishes()


def _is_interrupted_and_saves_without_a_step(world: World) -> tuple[Program, Program]:
    """``a``, which waits for the turn to save what it has, and who has the turn."""
    saving, holding = _moved_while_away(world, "--no-step", **UNAWARE)
    saving.go_on()
    saving.expect("asking")
    world.until("a", "waits")
    saving.signal(signal.SIGINT)
    saving.expect("interrupted")
    saving.go_on()
    saving.expect("saving")
    return saving, holding


def test_what_is_saved_after_ctrl_c_is_back_without_a_step(world: World) -> None:
    saving, holding = _is_interrupted_and_saves_without_a_step(world)
    holding.go_on()
    holding.finishes()
    assert saving.expect("saved") == "saved 200 steps=1"
    _has_used_nothing_out_of_turn(saving)


def test_a_second_ctrl_c_ends_the_wait_for_what_is_to_be_saved(world: World) -> None:
    saving, holding = _is_interrupted_and_saves_without_a_step(world)
    saving.signal(signal.SIGINT)
    assert saving.wait() == -signal.SIGINT, saving.story()
    assert "KeyboardInterrupt" in saving.stderr and "SystemError" not in saving.stderr, saving.story()
    holding.go_on()
    holding.finishes()


def test_steps_that_end_out_of_order_or_on_another_thread_leave_none_open(world: World) -> None:
    program = world.job("out_of_order")
    program.finishes()
    assert program.lines[0] == "zipped 3"
    assert program.lines[1].startswith("a step was ended on another thread than the one that began it")
    assert program.lines[2] == "then 4"


def test_a_program_that_starts_itself_anew_finds_the_memory_of_its_last_image_free(world: World) -> None:
    world.memory = "300MiB"
    program = world.start(sys.executable, str(PROGRAMS / "again.py"), "2")
    program.finishes()
    pid = program.process.pid
    assert program.lines == [f"{left} {pid} 200" for left in (2, 1, 0)]


def test_an_exception_that_the_program_catches_leaves_it_able_to_go_on(world: World) -> None:
    program = world.job("catches")
    program.finishes()
    assert program.lines[-1] == "steps=3"


def test_exit_codes_pass_through_run_and_emulate(world: World) -> None:
    run = [*hocket_command(), "run", "--"]
    assert world.start("sh", "-c", "exit 7").wait() == 7
    assert world.start(*run, "sh", "-c", "exit 9").wait() == 9
    assert world.start(*run, sys.executable, "-c", "import torch, sys; sys.exit(5)").wait() == 5


def test_signals_pass_through_run_and_emulate(world: World) -> None:
    program = world.start(*hocket_command(), "run", "--", "sh", "-c", "echo ready; exec cat")
    program.expect("ready")
    program.signal(signal.SIGTERM)
    assert program.wait() == -signal.SIGTERM


def test_the_coordinator_is_killed_and_nobody_loses_a_step(world: World, alone: Callable[..., list[str]]) -> None:
    holding = world.job("train", "--name", "a", "--hold", "4", "--losses", world.losses("a"), *SMALL)
    holding.expect("step 4")  # it has the turn
    other = world.job("train", "--name", "b", "--losses", world.losses("b"), *SMALL)
    before = world.status()["daemon"]["pid"]
    world.start("kill", "-9", str(before), emulated=False).wait()
    holding.go_on()
    holding.finishes()
    other.finishes()
    for name in ("a", "b"):
        assert world.losses(name).read_text().split() == alone("train", *SMALL)


def test_a_stopped_waiter_does_not_stop_the_others(world: World, alone: Callable[..., list[str]]) -> None:
    stopped = world.job("train", "--name", "stopped", "--hold", "built", *SMALL)
    stopped.expect("built")
    other = world.job("train", "--name", "other", "--hold", "4", "--losses", world.losses("other"), *SMALL)
    other.expect("step 4")  # it has the turn, so the first job has none
    stopped.signal(signal.SIGSTOP)
    other.go_on()
    other.finishes()
    assert world.losses("other").read_text().split() == alone("train", *SMALL)
    stopped.signal(signal.SIGCONT)
    stopped.go_on()
    stopped.finishes()


def test_a_job_stopped_while_it_waits_loses_its_turn_and_no_step(world: World, alone: Callable[..., list[str]]) -> None:
    def starts(name: str, *how: object) -> Program:
        return world.job("train", "--name", name, "--losses", world.losses(name), *how, *SMALL)

    holding = starts("holding", "--hold", "4")
    holding.expect("step 4")
    stopped = starts("stopped")
    world.until("stopped", "waits")
    stopped.signal(signal.SIGSTOP)
    other = starts("other")
    world.until("other", "waits")
    holding.go_on()
    world.until("stopped", "stopped")  # it was given the turn, and has lost it
    holding.finishes()
    other.finishes()
    why = " ".join(world.hocket("explain", "stopped").stdout.split())
    assert "has not taken up the turn that it was given" in why, why
    stopped.signal(signal.SIGCONT)
    stopped.finishes()
    for name in ("holding", "stopped", "other"):
        assert world.losses(name).read_text().split() == alone("train", *SMALL)


def _ends_while_it_waits(world: World, leaver: Program, holder: Program) -> None:
    leaver.expect("started")
    world.until("leaver", "waits")
    leaver.go_on()
    leaver.finishes()
    holder.go_on()
    holder.finishes()


def test_a_process_may_end_while_one_of_its_threads_waits_for_the_turn(world: World) -> None:
    holder = world.job("train", "--name", "holder", "--hold", "4", *SMALL)
    holder.expect("step 4")
    leaver = world.job("ends_at_the_door")
    _ends_while_it_waits(world, leaver, holder)


# Python up to 3.13 ends such a thread in a way that aborts the process (docs/decisions/0037).
def test_a_process_may_end_while_a_thread_of_pytorchs_asks_for_the_interpreters_lock(world: World) -> None:
    # Not on the emulated GPU: a process on it ends well without Hocket, too.
    command = (*hocket_command(), "run", "--", sys.executable, str(PROGRAMS / "outlived.py"), "20")
    program = world.start(*command, emulated=False).finishes()
    assert program.lines == ["20 of 20 ended well"], program.story()


def test_a_process_may_end_while_autograds_thread_waits_for_the_turn(
    world: World, alone: Callable[..., list[str]]
) -> None:
    leaver = world.job("ends_in_backward")
    leaver.expect("built")
    holder = world.job("train", "--name", "holder", "--hold", "4", "--losses", world.losses("holder"), *SMALL)
    holder.expect("step 4")
    leaver.go_on()
    _ends_while_it_waits(world, leaver, holder)
    assert world.losses("holder").read_text().split() == alone("train", *SMALL)
