"""The coordinator is replaced by another installation's while jobs train: no step is lost, none is done twice."""

from __future__ import annotations

import pathlib
import shutil
from collections.abc import Callable

from world import World, installed_daemon

STEPS = 24
LOAD = ("--steps", STEPS, "--layers", 2, "--width", 256)


def other_installation(folder: pathlib.Path) -> str:
    """A coordinator like the tests' own, elsewhere."""
    (folder / "bin").mkdir(parents=True)
    return shutil.copy(installed_daemon(), folder / "bin" / "hocketd")


def test_jobs_go_on_while_their_coordinator_is_replaced(world: World, alone: Callable[..., list[str]]) -> None:
    holding = world.job("train", "--name", "holding", "--hold", "8", "--losses", world.losses("holding"), *LOAD)
    holding.expect("step 8")
    waiting = world.job("train", "--name", "waiting", "--losses", world.losses("waiting"), *LOAD)
    world.until("waiting", "waits")
    assert world.hocket("set", "waiting", "--weight", "3").returncode == 0
    before = world.status()["daemon"]["pid"]
    for number in (1, 2):  # an upgrade, and back: in the midst of a step each time
        new = other_installation(world.folder / f"installation{number}")
        said = world.hocket("restart", HOCKET_DAEMON=new)
        assert said.returncode == 0, said.stderr
        after = world.status()["daemon"]["pid"]
        assert after != before and f"(pid {after})" in said.stdout and f"(pid {before})" in said.stdout, said.stdout
        assert pathlib.Path(f"/proc/{after}/exe").resolve() == pathlib.Path(new).resolve(), "a job started its own"
        before = after
    world.until_all(lambda states: states.keys() == {"holding", "waiting"}, "both have reported")
    jobs = {job["name"]: job for job in world.status()["jobs"]}
    assert jobs["waiting"]["weight"] == 3 and jobs["waiting"]["steps"] == 0, jobs
    # One that was kept from reporting in time has its turn all the same: who was given it meanwhile waits for its end.
    late = "has not ended a turn that it had before it joined again" in jobs["holding"]["why"]
    assert jobs["holding"]["state"] == "holds" or late, jobs
    holding.go_on()
    for job, name in ((holding, "holding"), (waiting, "waiting")):
        job.finishes()
        assert job.counted("steps") == STEPS
        assert world.losses(name).read_text().split() == alone("train", *LOAD)
    turns = world.turns()
    assert sum(turn["steps"] for turn in turns if turn["name"] == "waiting") == STEPS, turns


def test_a_coordinator_that_does_not_run_replaces_none(world: World) -> None:
    job = world.job("train", "--hold", "4", *LOAD)
    job.expect("step 4")
    before = world.status()["daemon"]["pid"]
    refused = world.hocket("restart", HOCKET_DAEMON="/nowhere/hocketd")
    assert refused.returncode == 1 and "/nowhere/hocketd" in refused.stderr and "Nothing was changed" in refused.stderr
    assert world.status()["daemon"]["pid"] == before
    job.go_on()
    job.finishes()


def test_where_none_runs_restart_starts_one(world: World) -> None:
    said = world.hocket("restart")
    assert said.returncode == 0 and "none ran before" in said.stdout, said
    assert f"(pid {world.status()['daemon']['pid']})" in said.stdout


def test_a_folder_that_others_may_write_is_refused(world: World, tmp_path: pathlib.Path) -> None:
    folder = tmp_path / "open"
    folder.mkdir()
    folder.chmod(0o777)
    refused = world.hocket("restart", HOCKET_RUNTIME_DIR=str(folder))
    assert refused.returncode == 1 and "must be yours alone (chmod 700)" in refused.stderr, refused
    assert list(folder.iterdir()) == []
