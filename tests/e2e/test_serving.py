"""Requests beside training: answered in the midst of a step, and everybody computes what it computes alone."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable

import pytest
from world import LARGE, PROGRAMS, SMALL, Program, World, hocket_command

LONG = ("--steps", 60, "--layers", 2, "--width", 256)


def serves(world: World, *more: object) -> Program:
    server = world.job("serve", *more)
    server.expect("ready")
    return server


def ask(server: Program, number: int) -> str:
    server.go_on()
    return server.expect(f"answer {number} ").split()[2]


def ends(server: Program) -> None:
    assert server.process.stdin
    server.process.stdin.write("end\n")
    server.process.stdin.flush()
    server.finishes()


@pytest.fixture
def answers(world: World) -> list[str]:
    """Of the first requests, by a server that is alone."""
    server = serves(world)
    alone = [ask(server, number) for number in range(8)]
    ends(server)
    return alone


def trains(world: World, *what: object, hold: str) -> Program:
    """Held where it comes to no door: for requests alone, a step that does not use its turn keeps it."""
    how = ("--losses", world.losses("train"), "--hold", hold, "--idle")
    job = world.job("train", "--name", "train", *how, *what)
    job.expect(f"step {hold}" if hold.isdigit() else hold)
    return job


def same_as_alone(world: World, alone: Callable[..., list[str]], *what: object) -> None:
    assert world.losses("train").read_text().split() == alone("train", *what)


def test_a_request_is_answered_in_the_midst_of_a_step(
    world: World, alone: Callable[..., list[str]], answers: list[str]
) -> None:
    server = serves(world)
    train = trains(world, *SMALL, hold="4")
    for number, answer in enumerate(answers):
        assert ask(server, number) == answer
    world.until_all(lambda states: states["train"] == "holds", "the trainer has its turn")
    train.go_on()
    train.finishes()
    ends(server)
    same_as_alone(world, alone, *SMALL)
    turns = {turn["turn"] for turn in world.turns() if turn["name"] == "train" and turn["steps"] > 0}
    assert len(turns) == 1, world.turns()


def test_requests_come_all_the_time(world: World, alone: Callable[..., list[str]], answers: list[str]) -> None:
    server = serves(world)
    train = trains(world, *LONG, "--more", hold="2")
    train.go_on()
    number, told = 0, False
    while train.process.poll() is None:
        answer = ask(server, number)
        assert number >= len(answers) or answer == answers[number]
        number += 1
        if number > 10 and "more" in train.lines and not told:
            train.go_on()  # to its end
            told = True
    train.finishes()
    ends(server)
    same_as_alone(world, alone, *LONG)


def test_the_training_goes_on_when_the_server_is_killed(world: World, alone: Callable[..., list[str]]) -> None:
    server = serves(world, "--hold", 1)
    train = trains(world, *SMALL, hold="4")
    ask(server, 0)
    server.go_on()
    server.expect("in 1")
    server.kill()
    train.go_on()
    train.finishes()
    same_as_alone(world, alone, *SMALL)


def test_requests_are_answered_when_the_training_is_killed(world: World, answers: list[str]) -> None:
    server = serves(world, "--hold", 1)
    train = trains(world, *SMALL, hold="4")
    assert ask(server, 0) == answers[0]
    server.go_on()
    server.expect("in 1")
    train.kill()
    server.go_on()
    assert server.expect("answer 1 ").split()[2] == answers[1]
    assert ask(server, 2) == answers[2]
    ends(server)


def test_a_request_that_takes_long_holds_nobody_up(world: World, alone: Callable[..., list[str]]) -> None:
    server = serves(world, "--hold", 1)
    train = trains(world, *SMALL, hold="4")
    ask(server, 0)
    server.go_on()
    server.expect("in 1")
    train.go_on()
    train.finishes()
    server.go_on()
    server.expect("answer 1 ")
    ends(server)
    same_as_alone(world, alone, *SMALL)


def test_both_go_on_when_the_coordinator_is_killed(
    world: World, alone: Callable[..., list[str]], answers: list[str]
) -> None:
    server = serves(world, "--hold", 1)
    train = trains(world, *SMALL, hold="4")
    ask(server, 0)
    server.go_on()
    server.expect("in 1")
    os.kill(world.status()["daemon"]["pid"], signal.SIGKILL)
    train.go_on()
    server.go_on()
    assert server.expect("answer 1 ").split()[2] == answers[1]
    for number in range(2, len(answers)):
        assert ask(server, number) == answers[number]
    train.finishes()
    ends(server)
    same_as_alone(world, alone, *SMALL)


def test_on_a_device_on_which_both_do_not_fit(world: World, alone: Callable[..., list[str]]) -> None:
    big = ("--layers", 20, "--width", 1024)  # 80 MiB
    server = serves(world, *big)
    expected = [ask(server, number) for number in range(4)]
    ends(server)
    world.memory = "288MiB"
    server = serves(world, *big)
    train = trains(world, *LARGE, hold="2")
    train.go_on()
    for number, answer in enumerate(expected):
        assert ask(server, number) == answer
    train.finishes()
    ends(server)
    same_as_alone(world, alone, *LARGE)


def test_without_a_line_in_the_program(world: World) -> None:
    server = world.start(
        *hocket_command(),
        "run",
        "--serves",
        "--name",
        "plain",
        "--",
        sys.executable,
        str(PROGRAMS / "serve.py"),
        "--plain",
    )
    server.expect("ready")
    job = next(job for job in world.status()["jobs"] if job["name"] == "plain")
    assert job["serves"], job
    ends(server)
