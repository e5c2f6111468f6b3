"""The command line while jobs run: pause and resume, another policy, status, logs, doctor."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Callable

import pytest
from world import PROGRAMS, World, hocket_command

SMALL = ("--steps", 12, "--layers", 2, "--width", 256)


def test_a_paused_job_gets_no_turn_until_it_is_resumed(world: World, alone: Callable[..., list[str]]) -> None:
    paused = world.job("train", "--name", "paused", "--hold", "4", "--losses", world.losses("paused"), *SMALL)
    paused.expect("step 4")
    assert world.hocket("pause", "paused").returncode == 0
    other = world.job("train", "--name", "other", "--losses", world.losses("other"), *SMALL)
    paused.go_on()  # to the end of its step, where its turn ends
    other.finishes()
    job = next(job for job in world.status()["jobs"] if job["name"] == "paused")
    assert job["state"] == "paused"
    assert "paused" in job["why"]
    assert paused.process.poll() is None, paused.story()
    said = world.hocket("explain", "paused").stdout
    assert "resume" in said, said
    assert world.hocket("resume", "paused").returncode == 0
    paused.finishes()
    for name in ("paused", "other"):
        assert world.losses(name).read_text().split() == alone("train", *SMALL)


def test_the_policy_can_be_changed_while_jobs_run(world: World, alone: Callable[..., list[str]]) -> None:
    first = world.job("train", "--name", "first", "--hold", "4", "--losses", world.losses("first"), *SMALL)
    first.expect("step 4")
    second = world.job("train", "--name", "second", "--losses", world.losses("second"), *SMALL)
    for policy in ("fifo", "round-robin", "fair"):
        assert world.hocket("policy", policy).returncode == 0
        assert policy in world.hocket("policy").stdout
        assert world.status()["daemon"]["policy"] == policy
    first.go_on()
    first.finishes()
    second.finishes()
    for name in ("first", "second"):
        assert world.losses(name).read_text().split() == alone("train", *SMALL)


def test_status_logs_and_explain_tell_the_same_story(world: World) -> None:
    holding = world.job("train", "--name", "holding", "--hold", "4", *SMALL)
    holding.expect("step 4")
    waiting = world.job("wait_for_turn")
    waiting.expect("asking")
    watch = world.start(*hocket_command(), "status", "--watch", "--json", "--interval", "0.05", emulated=False)
    seen = [{job["name"]: job["state"] for job in json.loads(watch.expect("{"))["jobs"]}]
    while seen[-1] != {"holding": "holds", "waiting": "waits"}:
        assert len(seen) < 100, seen[-1]
        seen.append({job["name"]: job["state"] for job in json.loads(watch.expect("{"))["jobs"]})
    watch.signal(signal.SIGINT)
    assert watch.wait() == 0, watch.story()
    table = world.hocket("status").stdout
    assert "holding" in table and "waiting" in table
    assert "holding" in world.hocket("explain", "waiting").stdout
    holding.go_on()
    holding.finishes()
    waiting.finishes()
    logged = world.hocket("logs").stdout
    assert "holding" in logged and "waiting" in logged


@pytest.mark.parametrize(
    "launcher",
    [
        pytest.param((sys.executable, "-m", "train"), id="python -m"),
        pytest.param((sys.executable, "-m", "torch.distributed.run", "--standalone"), id="torchrun"),
        pytest.param((sys.executable, "-m", "accelerate.commands.launch", "--num_processes=1"), id="accelerate"),
    ],
)
def test_run_reaches_what_a_launcher_starts(
    world: World, alone: Callable[..., list[str]], launcher: tuple[str, ...]
) -> None:
    script = [] if "train" in launcher else [str(PROGRAMS / "train.py")]
    options = ("--plain", "--losses", str(world.losses("plain")), *map(str, SMALL))
    run = world.start(
        *hocket_command(), "run", "--name", "launched", "--", *launcher, *script, *options, PYTHONPATH=str(PROGRAMS)
    )
    run.finishes()
    assert "steps=12" in run.lines[-1], run.story()
    assert sum(line.startswith("hocket: job launched") for line in run.errors) == 1, run.story()
    assert world.losses("plain").read_text().split() == alone("train", *SMALL)


def test_doctor_finds_the_emulated_device_and_says_that_it_is_one(world: World) -> None:
    doctor = world.start(*hocket_command(), "doctor")
    doctor.finishes()
    said = "\n".join(doctor.lines)
    assert "emulated" in said and "512.0 MiB" in said, said
    assert "the one Hocket was built for" in said, said


def test_doctor_names_the_coordinator_that_runs(world: World) -> None:
    holding = world.job("train", "--hold", "4", *SMALL)
    holding.expect("step 4")
    said = world.hocket("doctor").stdout
    assert f"pid {world.status()['daemon']['pid']}, 1 jobs" in said, said


@pytest.mark.parametrize(
    ("command", "variables", "problem", "advice"),
    [
        ("exec hocket doctor", {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}, "`hocket run` does nothing", "Unset it"),
        ("ulimit -n 256; exec hocket doctor", {}, "only 256 open files", "ulimit -n"),
        ("exec hocket doctor", {"HOCKET_DAEMON": "/nowhere/hocketd"}, "/nowhere/hocketd is missing", "pip install"),
    ],
    ids=["autoload is off", "few open files", "no daemon"],
)
def test_doctor_says_what_keeps_hocket_from_working(
    world: World, command: str, variables: dict[str, str], problem: str, advice: str
) -> None:
    doctor = world.start("sh", "-c", command, **variables)
    assert doctor.wait() == 1, doctor.story()
    said = "\n".join(doctor.lines)
    assert problem in said and advice in said, said
    assert "!!" in said and "problem" in doctor.lines[-1]


def test_doctor_notes_limits_that_make_it_slower(world: World) -> None:
    doctor = world.start("sh", "-c", "ulimit -l 1024; exec hocket doctor")
    doctor.finishes()
    assert "locked memory is limited to 1.0 MiB" in "\n".join(doctor.lines), doctor.story()
