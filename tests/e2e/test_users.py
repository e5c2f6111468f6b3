"""Several users, and several coordinators, on one machine."""

from __future__ import annotations

import os
import pathlib
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest
from world import PATIENCE, PROGRAMS, SMALL, Program, World, hocket_command, installed_daemon

ANN, BOB = 12345, 12346


def _can_be_two_users() -> str:
    """Why not; empty: this process may become others, who can read what it runs."""
    if os.geteuid() != 0:
        return "needs root, to be two users"
    as_ann = ["setpriv", f"--reuid={ANN}", f"--regid={ANN}", "--clear-groups", sys.executable, "-c", "import hocket"]
    said = subprocess.run(as_ann, capture_output=True, text=True)
    return f"another user cannot run {sys.executable}: {said.stderr[-200:]}" if said.returncode else ""


def _has_mount_namespaces() -> str:
    """Why not; empty: it has."""
    said = subprocess.run(
        ["unshare", "--mount", "mount", "-t", "tmpfs", "none", "/mnt"], capture_output=True, text=True
    )
    return f"no mount namespace can be made here: {said.stderr[-200:]}" if said.returncode else ""


two_users = pytest.mark.skipif(bool(why := _can_be_two_users()), reason=why)
namespaces = pytest.mark.skipif(bool(why := _has_mount_namespaces()), reason=why)


# --- one coordinator for all ----------------------------------------------------------------------


@pytest.fixture
def shared(world: World) -> Iterator[World]:
    """A world whose coordinator serves all users, and whose device is everybody's."""
    world.folder.chmod(0o755)
    world.environment["HOCKET_EMULATOR_ALL_USERS"] = "1"
    subprocess.run([installed_daemon(), "--system"], env=world.environment, check=True)  # ends when it serves
    yield world
    pathlib.Path(f"/dev/shm/hocket-emulator-all-{world.name}").unlink(missing_ok=True)


def as_user(world: World, uid: int, *command: str) -> Program:
    home = world.folder / str(uid)
    home.mkdir(exist_ok=True)
    os.chown(home, uid, uid)
    become = ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups"]
    return world.start(*become, *command, HOME=str(home), XDG_CONFIG_HOME=str(home))


def job(world: World, uid: int, program: str, *arguments: object) -> Program:
    return as_user(world, uid, sys.executable, str(PROGRAMS / f"{program}.py"), *map(str, arguments))


def command(world: World, uid: int, *arguments: str) -> subprocess.CompletedProcess[str]:
    become = ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups"]
    return subprocess.run(
        [*become, *hocket_command(), *arguments],
        env=world.environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )


@two_users
def test_two_users_trainings_take_turns_and_lose_nothing(shared: World, alone: Callable[..., list[str]]) -> None:
    losses = {uid: shared.folder / str(uid) / "losses" for uid in (ANN, BOB)}
    first = job(shared, ANN, "train", "--name", "train", "--hold", "4", "--losses", losses[ANN], *SMALL)
    first.expect("step 4")
    second = job(shared, BOB, "train", "--name", "train", "--losses", losses[BOB], *SMALL)
    shared.until_all(lambda jobs: "waits" in jobs.values(), "the second waits")
    status = command(shared, BOB, "status").stdout
    assert f"a job of uid {ANN}" in status
    explained = command(shared, BOB, "explain", "train").stdout
    assert f"a job of uid {ANN} has had the turn" in explained, explained
    first.go_on()
    for training in (first, second):
        training.finishes()
    for uid in (ANN, BOB):
        assert losses[uid].read_text().split() == alone("train", *SMALL)
    assert first.counted("turns") > 1, first.story()


@two_users
def test_another_users_job_is_not_ones_own_to_pause_or_stop(shared: World) -> None:
    training = job(shared, ANN, "train", "--name", "anns", "--hold", "2", *SMALL)
    training.expect("step 2")
    for words in (["pause", "anns"], ["set", "anns", "--weight", "9"], ["explain", "anns"]):
        answer = command(shared, BOB, *words)
        assert answer.returncode == 1, words
        assert "there is no job 'anns' of yours" in answer.stderr
    for words in (["stop", "--force"], ["policy", "fifo"], ["logs"], ["quota", "--user", str(BOB), "--weight", "9"]):
        answer = command(shared, BOB, *words)
        assert answer.returncode == 1, words
        assert "only root may" in answer.stderr
    assert command(shared, ANN, "pause", "anns").returncode == 0
    assert command(shared, 0, "resume", "anns").returncode == 0
    training.go_on()
    training.finishes()


@two_users
def test_memory_that_changes_hands_between_users_is_cleared(shared: World) -> None:
    shared.memory = "192MiB"
    shared.check = False  # reading what one has not written is what it is about
    anns = job(shared, ANN, "secret", "fill", 96)
    anns.expect("filled")
    assert job(shared, ANN, "secret", "look", 96).finishes().lines == [f"saw {96 << 18}"], "the same user's arena"
    assert job(shared, BOB, "secret", "look", 128).finishes().lines == ["saw 0"]
    anns.go_on()
    anns.finishes()


# --- several coordinators -------------------------------------------------------------------------


def test_two_coordinators_on_one_device_train_side_by_side_and_name_each_other(
    world: World, alone: Callable[..., list[str]]
) -> None:
    elsewhere = {"HOCKET_RUNTIME_DIR": str(world.folder / "elsewhere")}
    here = world.job("train", "--name", "here", "--hold", "4", "--losses", world.losses("here"), *SMALL)
    here.expect("step 4")
    there = world.job("train", "--name", "there", "--hold", "4", "--losses", world.losses("there"), *SMALL, **elsewhere)
    there.expect("step 4")  # both are in a step: nobody waits for the other
    for variables in ({}, elsewhere):
        status = world.hocket("status", **variables).stdout
        assert "gives turns on it, too" in " ".join(status.split()), status
        assert "the same HOCKET_RUNTIME_DIR" in " ".join(status.split())
        doctor = world.hocket("doctor", **variables).stdout
        assert f"another coordinator, of uid {os.geteuid()}" in doctor, doctor
    for training in (here, there):
        training.go_on()
        training.finishes()
    for name in ("here", "there"):
        assert world.losses(name).read_text().split() == alone("train", *SMALL)
    world.hocket("stop", **elsewhere)


def in_a_container(world: World, mounted: bool, *command: str) -> list[str]:
    """Runs ``command`` where the world's folder is another, with the coordinator's mounted into it, or without.

    Not all of /tmp is another: what runs the tests may lie there.
    """
    run = shlex.quote(world.environment["HOCKET_RUNTIME_DIR"])
    folder = shlex.quote(str(world.folder))
    script = f"mount --bind {folder} /mnt && mount -t tmpfs none {folder}"
    if mounted:
        script += f" && mkdir {run} && mount --bind /mnt/run {run}"
    return ["unshare", "--mount", "sh", "-c", f'{script} && exec "$@"', "sh", *command]


def training_in_a_container(world: World, mounted: bool) -> Program:
    script = [sys.executable, str(PROGRAMS / "train.py"), "--name", "inside", "--hold", "4", *map(str, SMALL)]
    inside = ["--losses", "/mnt/inside.losses"]
    return world.start(*in_a_container(world, mounted, *script, *inside))


@namespaces
def test_a_job_in_a_container_takes_turns_where_the_folder_is_mounted(
    world: World, alone: Callable[..., list[str]]
) -> None:
    outside = world.job("train", "--name", "outside", "--hold", "4", "--losses", world.losses("outside"), *SMALL)
    outside.expect("step 4")
    inside = training_in_a_container(world, mounted=True)
    world.until("inside", "waits")
    outside.go_on()
    inside.expect("step 4")
    inside.go_on()
    for training in (outside, inside):
        training.finishes()
    for name in ("outside", "inside"):
        assert world.losses(name).read_text().split() == alone("train", *SMALL)


@namespaces
def test_a_job_in_a_container_without_the_folder_trains_under_a_coordinator_that_is_seen_from_outside(
    world: World, alone: Callable[..., list[str]]
) -> None:
    outside = world.job("train", "--name", "outside", "--hold", "4", *SMALL)
    outside.expect("step 4")
    inside = training_in_a_container(world, mounted=False)
    inside.expect("step 4")
    assert "gives turns on it, too" in " ".join(world.hocket("status").stdout.split())
    doctor = world.hocket("doctor").stdout
    assert "mounted into a container" in doctor, doctor
    for training in (outside, inside):
        training.go_on()
        training.finishes()
    assert world.losses("inside").read_text().split() == alone("train", *SMALL)
