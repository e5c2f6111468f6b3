"""What is wrong is said: what was tried, what stood in the way, what to do. Nothing hangs."""

from __future__ import annotations

import os
import pathlib
import select
import socket
import sys
import threading
from collections.abc import Callable

import pytest
from world import PATIENCE, World

SMALL = ("--steps", 6, "--layers", 2, "--width", 256)


@pytest.mark.parametrize("command", ["run", "emulate"])
def test_no_command(world: World, command: str) -> None:
    answer = world.hocket(command)
    assert answer.returncode == 2
    assert "no command was given" in answer.stderr
    assert f"hocket {command} -- python train.py" in answer.stderr


def test_a_command_that_is_not_there(world: World) -> None:
    answer = world.hocket("run", "--", "no-such-program-anywhere")
    assert answer.returncode == 127
    assert "no-such-program-anywhere" in answer.stderr


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--weight", "0"), "not > 0"),
        (("--weight", "-2"), "not > 0"),
        (("--weight", "nan"), "not > 0"),
        (("--weight", "heavy"), "no number"),
        (("--priority", "urgent"), "'high', 'normal', 'low'"),
        (("--memory-limit", "lots"), "lots"),
        (("--memory-limit", "0"), "must be > 0"),
        (("--total-steps", "0"), "x>=1"),
    ],
)
def test_run_refuses_a_wrong_option(world: World, options: tuple[str, ...], said: str) -> None:
    answer = world.hocket("run", *options, "--", "true")
    assert answer.returncode == 2
    assert said in answer.stderr, answer.stderr


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--memory", "big"), "big"),
        (("--devices", "0"), "1<=x<=16"),
        (("--name", "a/b"), "a/b"),
        (("--name", ""), "name a device"),
    ],
)
def test_emulate_refuses_a_wrong_option(world: World, options: tuple[str, ...], said: str) -> None:
    answer = world.hocket("emulate", *options, "--", "true")
    assert answer.returncode == 2
    assert said in answer.stderr, answer.stderr


def test_a_memory_limit_above_the_device_is_refused_with_both_numbers(world: World) -> None:
    program = world.start(
        sys.executable, "-c", "import hocket, torch; hocket.join(memory_limit='4GiB'); torch.ones(1, device='cuda')"
    )
    assert program.wait() == 1
    assert "4.0 GiB" in program.stderr and "512.0 MiB" in program.stderr, program.story()


@pytest.mark.parametrize("command", [("pause",), ("resume",), ("explain",), ("set", "--weight", "2")])
def test_an_unknown_job_is_named_with_those_there_are(world: World, command: tuple[str, ...]) -> None:
    job = world.job("train", "--name", "resnet", "--hold", "built", *SMALL)
    job.expect("built")
    answer = world.hocket(*command, "resnte")
    assert answer.returncode == 1
    assert "resnte" in answer.stderr and "resnet" in answer.stderr.replace("resnte", ""), answer.stderr
    job.go_on()
    job.finishes()


def test_an_unknown_policy_is_named_with_those_there_are(world: World) -> None:
    job = world.job("train", "--hold", "built", *SMALL)
    job.expect("built")
    answer = world.hocket("policy", "fairest")
    assert answer.returncode == 1
    assert "fairest" in answer.stderr and "round-robin" in answer.stderr, answer.stderr
    job.go_on()
    job.finishes()


def test_without_a_coordinator_the_command_line_says_so(world: World) -> None:
    answer = world.hocket("status")
    assert "no coordinator" in (answer.stdout + answer.stderr).lower()


def test_a_coordinator_that_cannot_be_asked_is_not_taken_for_none(world: World) -> None:
    """Whether one runs is not known: a path that is too long, and one that hangs up in the middle of its answer."""
    far = world.folder / ("x" * 120)
    answers = [world.hocket(*command, HOCKET_RUNTIME_DIR=str(far)) for command in (["status"], ["restart"])]
    for answer in answers:
        assert answer.returncode == 1 and "Name a shorter folder in HOCKET_RUNTIME_DIR" in answer.stderr, answer
    assert "a socket's may have" in world.hocket("doctor", HOCKET_RUNTIME_DIR=str(far)).stdout

    path = world.folder / "run" / "hocketd.sock"
    path.parent.mkdir(mode=0o700, exist_ok=True)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(str(path))
        listener.listen()
        listener.settimeout(PATIENCE)

        def hangs_up() -> None:
            with listener.accept()[0] as asking:
                asking.recv(1 << 16)

        thread = threading.Thread(target=hangs_up)
        thread.start()
        answer = world.hocket("status")
        thread.join(PATIENCE)
    path.unlink()
    assert answer.returncode == 1 and "hung up before it had answered 'status'" in answer.stderr, answer
    assert world.hocket("status").returncode == 0, "none listens"


def test_a_device_too_small_for_one_job_says_who_holds_what(world: World) -> None:
    world.memory = "64MiB"
    program = world.job("train", "--layers", 12, "--width", 1024, "--steps", 3)
    assert program.wait() == 1
    assert "OutOfMemoryError" in program.stderr, program.story()
    assert "64.0 MiB" in program.stderr, program.story()


def test_cuda_started_before_hocket_is_said_once_and_turns_are_taken(world: World) -> None:
    other = world.job("train", "--hold", "2", *SMALL)
    other.expect("step 2")
    program = world.job("late_import")
    world.until("late_import.py", "waits")
    other.go_on()
    program.finishes()
    other.finishes()
    said = [line for line in program.errors if "before hocket was imported" in line]
    assert len(said) == 1, program.story()
    assert program.lines[-1] == "steps=4"


def test_no_boundary_is_said_with_what_to_add(world: World) -> None:
    program = world.run("no_boundary", HOCKET_BOUNDARY_WARNING_SECONDS="0.2", HOCKET_NAME="silent")
    program.finishes()
    said = [line for line in program.errors if "no step boundary" in line]
    assert len(said) == 1, program.story()
    assert "job silent" in said[0] and "hocket.steps(loader)" in said[0]


def test_a_program_that_never_uses_the_device_is_not_disturbed(world: World) -> None:
    program = world.start(sys.executable, "-c", "import torch; print(torch.ones(2).sum().item())", HOCKET_RUN="1")
    program.finishes()
    assert program.lines == ["2.0"]
    assert program.errors == []


def test_a_stale_socket_is_replaced(world: World, alone: Callable[..., list[str]]) -> None:
    folder = pathlib.Path(world.environment["HOCKET_RUNTIME_DIR"])
    folder.mkdir(mode=0o700)
    stale = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    stale.bind(str(folder / "hocketd.sock"))
    stale.close()
    world.job("train", "--losses", world.losses("job"), *SMALL).finishes()
    assert world.losses("job").read_text().split() == alone("train", *SMALL)


def test_a_runtime_folder_that_cannot_be_is_said_and_the_program_goes_on(world: World) -> None:
    blocked = world.folder / "blocked"
    blocked.write_text("a file, not a folder")
    program = world.job("train", *SMALL, HOCKET_RUNTIME_DIR=str(blocked))
    program.finishes()
    assert str(blocked) in program.stderr, program.story()


def test_garbage_on_the_socket_ends_that_connection_only(world: World, alone: Callable[..., list[str]]) -> None:
    job = world.job("train", "--hold", "2", "--losses", world.losses("job"), *SMALL)
    job.expect("step 2")
    path = str(pathlib.Path(world.environment["HOCKET_RUNTIME_DIR"]) / "hocketd.sock")
    for garbage in (b"\xff" * 200, b"HO", b"\x00" * 16):
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as stranger:
            stranger.connect(path)
            stranger.send(garbage)
            stranger.settimeout(60)
            while stranger.recv(4096):  # until it is closed
                pass
    job.go_on()
    job.finishes()
    assert world.losses("job").read_text().split() == alone("train", *SMALL)


def test_host_memory_for_spilling_exhausted_is_an_error_that_says_so(world: World) -> None:
    world.memory = "180MiB"
    endless = ("--layers", 18, "--width", 744, "--steps", 3000)  # neither has ended before both have needed the room
    first = world.job("train", "--name", "first", "--hold", "2", *endless, HOCKET_HOST_BUDGET=str(1 << 20))
    first.expect("step 2")
    second = world.job("train", "--name", "second", *endless, HOCKET_HOST_BUDGET=str(1 << 20))
    world.until("second", "waits")
    first.go_on()
    ends = {os.pidfd_open(first.process.pid): (first, "second"), os.pidfd_open(second.process.pid): (second, "first")}
    ended = select.select(list(ends), [], [], PATIENCE)[0]
    assert ended, world.look()
    refused, other = ends[ended[0]]
    assert refused.wait() == 1, refused.story()
    assert "OutOfMemoryError" in refused.stderr and other in refused.stderr, refused.story()
    assert "1.0 MiB" in refused.stderr, refused.story()
    for descriptor in ends:
        os.close(descriptor)
