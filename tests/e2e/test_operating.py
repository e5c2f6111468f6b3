"""The command line while jobs run: pause and resume, another policy, status, logs, doctor."""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import time
from collections.abc import Callable

import pytest
from world import LARGE, PROGRAMS, Program, World, hocket_command

# How `hocket run` finds steps, as it says.
HOW = "steps found through PyTorch's optimizer hooks and DataLoader fetches"
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


def test_the_bound_for_bytes_of_others_outlives_the_coordinator_and_changes_no_result(
    world: World, alone: Callable[..., list[str]]
) -> None:
    world.memory = "168MiB"

    def start(name: str, *how: str) -> Program:
        return world.job("train", "--name", name, *how, "--losses", world.losses(name), *LARGE, HOCKET_LINK_BOUND="0.5")

    jobs = {"a": start("a", "--hold", "0")}
    jobs["a"].expect("step 0")
    assert world.status()["daemon"]["link_bound"] == 0.5
    jobs |= {name: start(name) for name in ("b", "c")}
    world.until_all(lambda states: list(states.values()).count("waits") == 2, "both others waiting")
    said = world.hocket("policy", "--link-bound", "5%")
    assert said.returncode == 0 and "slow a holder down by at most 5.0%" in said.stdout, said
    status = world.status()
    assert status["devices"][0]["link"]["beside_bytes"] == 0, "nobody's bytes have moved yet"
    os.kill(status["daemon"]["pid"], signal.SIGKILL)
    jobs["a"].go_on()
    for name, job in jobs.items():
        job.finishes()
        assert world.losses(name).read_text().split() == alone("train", *LARGE)
    assert world.status()["daemon"]["link_bound"] == 0.05


def test_a_capped_job_rests_though_it_is_alone_and_computes_the_same(
    world: World, alone: Callable[..., list[str]]
) -> None:
    capped = world.job("train", "--name", "capped", "--hold", "4", "--losses", world.losses("capped"), *SMALL)
    capped.expect("step 4")
    said = world.hocket("quota", "capped", "--time-cap", "20%")
    assert said.returncode == 0 and said.stdout.startswith("capped: time cap 20%; has had "), said
    since = time.monotonic()
    assert "its cap is 20 %" in world.hocket("explain", "capped").stdout
    held = time.monotonic() - since
    capped.go_on()
    capped.finishes()
    world.hocket("trace", "-o", str(world.losses("trace")))
    turns = [turn for turn in json.loads(world.losses("trace").read_text())["turns"] if turn["name"] == "capped"]
    assert len(turns) > 1, turns  # with nobody else it would have kept the first
    rest = (turns[1]["start_ns"] - turns[0]["end_ns"]) / 1e9
    assert rest >= 4 * held, turns  # of 20 % it had all for so long
    assert world.losses("capped").read_text().split() == alone("train", *SMALL)


def limited_to(world: World, *limits: str):
    """A job that has built its model and goes on with the last of ``limits``, set while it had no turn."""
    job = world.job("train", "--name", "limited", "--hold", "built", "--losses", world.losses("limited"), *SMALL)
    job.expect("built")
    assert world.hocket("pause", "limited").returncode == 0
    world.until("limited", "paused")
    for limit in limits:
        said = world.hocket("set", "limited", "--memory-limit", limit)
        assert said.returncode == 0, said.stderr
    assert world.hocket("resume", "limited").returncode == 0
    job.go_on()
    return job


def test_jobs_that_wait_for_each_other_in_their_steps_go_on(world: World) -> None:
    address, rounds = world.folder / "pair", 2
    learner = world.job("pair", "learner", "--address", address, "--losses", world.losses("learner"))
    learner.expect("listens")
    actor = world.job("pair", "actor", "--address", address, "--rounds", rounds, "--losses", world.losses("actor"))
    actor.finishes()
    learner.finishes()
    weights, learned, said = 64.0, 0.0, {"actor": [], "learner": []}  # sums over 64 x 64
    for number in range(rounds):
        learned += weights * 64 * (number + 1) / 64
        weights += learned
        said["learner"].append(learned.hex())
        said["actor"].append(weights.hex())
    for name, values in said.items():
        assert world.losses(name).read_text().split() == values
    turns = [turn for turn in world.turns() if turn["name"] == "actor"]
    assert len(turns) > rounds, "each round's step has lost its turn once"


def test_what_was_recorded_is_played_under_other_policies(world: World) -> None:
    for name, steps in (("short", 6), ("long", 12)):
        world.job("train", "--name", name, "--steps", steps, "--layers", 2, "--width", 256).finishes()
    day, picture = world.folder / "day.json", world.folder / "policies.png"
    assert world.hocket("trace", "-o", str(day)).returncode == 0
    recorded = {job["name"]: job for job in json.loads(day.read_text())["jobs"]}
    assert {name: job["steps"] for name, job in recorded.items()} == {"short": 6, "long": 12}

    policies = ("--policy", "queue", "--policy", "round-robin")
    said = world.hocket("simulate", str(day), *policies, "--picture", str(picture), "--json")
    assert said.returncode == 0, said.stderr
    for report in json.loads(said.stdout)["policies"].values():
        assert {end["name"]: end["steps"] for end in report["ends"]} == {"short": 6, "long": 12}
        held = sum(job["held_s"] for job in recorded.values())
        assert report["busy"] * report["makespan_s"] == pytest.approx(held, rel=1e-3), "each has what it had"
    assert picture.read_bytes().startswith(b"\x89PNG")
    table = world.hocket("simulate", str(day), *policies).stdout
    assert "queue" in table and "round-robin" in table


def test_a_memory_limit_set_while_a_job_runs_is_heeded_by_its_allocator(world: World) -> None:
    job = limited_to(world, "1MiB")
    assert job.wait() != 0
    assert "this job's limit is 1.0 MiB" in job.stderr, job.story()


def test_a_memory_limit_lifted_again_limits_nothing(world: World, alone: Callable[..., list[str]]) -> None:
    limited_to(world, "1MiB", "none").finishes()
    assert world.losses("limited").read_text().split() == alone("train", *SMALL)


def test_status_logs_and_explain_tell_the_same_story(world: World) -> None:
    holding = world.job("train", "--name", "holding", "--hold", "4", *SMALL)
    holding.expect("step 4")
    waiting = world.job("wait_for_turn")
    waiting.expect("asking")
    watch = world.start(*hocket_command(), "status", "--watch", "--json", "--interval", "0.05", emulated=False)
    seen: dict[str, str] = {}
    patience = world.patience()
    while seen != {"holding": "holds", "waiting": "waits"}:
        patience.look(f"one that holds, one that waits: {seen}")
        seen = {job["name"]: job["state"] for job in json.loads(watch.expect("{"))["jobs"]}
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


def size(count: int) -> str:
    """As the command line writes bytes."""
    shift, unit = next(
        (s, u) for s, u in ((30, "GiB"), (20, "MiB"), (10, "KiB"), (0, "B")) if count >= 1 << s or s == 0
    )
    return f"{count / (1 << shift):.1f} {unit}" if shift else f"{count} B"


def test_status_shows_memory_turns_and_why(world: World) -> None:
    holding = world.job("train", "--name", "holding", "--hold", "4", *SMALL)
    holding.expect("step 4")
    waiting = world.job("wait_for_turn")
    world.until("waiting", "waits")
    kinds = ("persistent", "transient", "spilled")

    def held(status: dict) -> list:
        return [[job[which] for which in kinds] for job in status.get("jobs", [])]

    def told(status: dict) -> bool:
        return any(job["name"] == "holding" and job["persistent"] > 0 for job in status["jobs"])

    status, later, patience = world.status(), {}, world.patience()
    # Jobs report in their own time.
    while not told(status) or status["devices"] != later.get("devices") or held(status) != held(later):
        patience.look("the same memory before and after")
        status, shown, later = world.status(), world.hocket("status").stdout, world.status()
    device = status["devices"][0]
    assert f"{size(device['capacity'])}: {size(device['free'])} free, transient {size(device['arena'])}" in shown
    assert 0 < device["free"] < device["capacity"] == 512 << 20
    jobs = {job["name"]: job for job in status["jobs"]}
    assert jobs["holding"]["persistent"] > 0 and jobs["holding"]["steps"] == 4 and jobs["holding"]["turns"] > 0
    for name, state, why in (
        ("holding", "holds", "has had the turn for"),
        ("waiting", "waits", "holding has had the turn for"),
    ):
        job = jobs[name]
        row = next(" ".join(line.split()) for line in shown.splitlines() if line.split()[:1] == [name])
        memory = " ".join(size(job[which]) for which in kinds)
        assert row.startswith(f"{name} {state} {job['turns']} {job['steps']} "), shown
        assert f" {memory} " in row, shown
        assert why in row and why in job["why"], shown
    holding.go_on()
    holding.finishes()
    waiting.finishes()


def test_the_line_of_hocket_run_names_the_device_and_whom_it_shares_with(world: World) -> None:
    first = world.job("train", "--name", "first", "--hold", "4", *SMALL)
    first.expect("step 4")
    device = world.status()["devices"][0]["name"]
    command = (sys.executable, str(PROGRAMS / "train.py"), "--plain", *map(str, SMALL))
    second = world.start(*hocket_command(), "run", "--name", "second", "--", *command)
    world.until("second", "waits")
    first.go_on()
    first.finishes()
    second.finishes()
    alone = world.start(*hocket_command(), "run", "--name", "third", "--", *command).finishes()
    assert "emulated" in device
    for program, name, sharing in ((second, "second", "sharing with first"), (alone, "third", "alone so far")):
        said = [line for line in program.errors if line.startswith("hocket:")]
        assert said == [f"hocket: job {name} on {device}, {sharing}; {HOW}"], program.story()


def answering(world: World) -> int:
    """The process id of the coordinator, once there is one."""
    world.until_answered()
    return world.status()["daemon"]["pid"]


@pytest.mark.parametrize("end", ["hocket stop", "Ctrl-C"])
def test_serve_runs_in_the_foreground_until_stop(world: World, end: str) -> None:
    serving = world.start(*hocket_command(), "serve", emulated=False)
    assert answering(world) == serving.process.pid, serving.story()
    job = world.job("train", "--name", "served", "--hold", "4", *SMALL)
    job.expect("step 4")
    refused = world.hocket("stop")
    assert refused.returncode == 1 and "served" in refused.stderr, refused.stderr
    job.go_on()
    job.finishes()
    assert world.status()["daemon"]["pid"] == serving.process.pid, serving.story()
    if end == "Ctrl-C":
        serving.signal(signal.SIGINT)
    else:
        process = os.pidfd_open(serving.process.pid)
        stopped = world.hocket("stop")
        assert (stopped.returncode, stopped.stdout) == (0, "the coordinator has ended.\n"), stopped.stderr
        assert select.select([process], [], [], 0)[0], "it says so of one that still runs"
        os.close(process)
    assert serving.wait() == 0, serving.story()
    assert any("served" in line for line in serving.errors), "its log comes to stderr too"
    assert "No coordinator runs at" in world.hocket("status").stdout


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
        ("exec hocket doctor", {"HOCKET_DAEMON": "/nowhere/hocketd"}, "/nowhere/hocketd is missing", "pip install"),
    ],
    ids=["autoload is off", "no daemon"],
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
    doctor = world.start("sh", "-c", "ulimit -l 1024; ulimit -n 256; exec hocket doctor")
    doctor.finishes()
    said = "\n".join(doctor.lines)
    assert "locked memory is limited to 1.0 MiB" in said, doctor.story()
    assert "only 256 open files" in said and "Raise nofile" in said, doctor.story()


def test_a_day_is_recorded_over_a_coordinator_that_is_killed(world: World) -> None:
    steps = {"first": 6, "second": 9, "third": 4}
    size = ("--layers", 2, "--width", 256)
    for name in ("first", "second"):
        world.job("train", "--name", name, "--steps", steps[name], *size).finishes()
    day, pictures = world.folder / "day.json", world.folder / "turns.json"
    assert world.hocket("trace", "-o", str(day)).returncode == 0
    assert {job["name"] for job in json.loads(day.read_text())["jobs"]} == {"first", "second"}
    os.kill(world.status()["daemon"]["pid"], signal.SIGKILL)
    world.job("train", "--name", "third", "--steps", steps["third"], *size).finishes()
    assert world.hocket("stop").returncode == 0

    said = world.hocket("trace", "-o", str(day))  # of the folder that they have left
    assert said.returncode == 0, said.stderr
    recorded = json.loads(day.read_text())
    assert {job["name"]: job["steps"] for job in recorded["jobs"]} == steps
    for name, count in steps.items():
        assert sum(turn["steps"] for turn in recorded["turns"] if turn["name"] == name) == count
    assert [turn["start_ns"] for turn in recorded["turns"]] == sorted(turn["start_ns"] for turn in recorded["turns"])
    said = world.hocket("simulate", str(day), "--policy", "fifo", "--picture", str(world.folder / "p.png"), "--json")
    assert {end["name"]: end["steps"] for end in json.loads(said.stdout)["policies"]["fifo"]["ends"]} == steps

    assert world.hocket("trace", "--perfetto", "-o", str(pictures)).returncode == 0
    events = json.loads(pictures.read_text())["traceEvents"]
    assert sum(event["name"] == "turn" for event in events) == len(recorded["turns"])
    for since, turns in (("7d", recorded["turns"]), ("0.001s", [])):
        assert world.hocket("trace", "-o", str(day), "--since", since).returncode == 0
        assert json.loads(day.read_text())["turns"] == turns
