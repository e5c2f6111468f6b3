"""The config file, read by what is installed: jobs, the coordinators that they start, the command line."""

from __future__ import annotations

import os
import pathlib
import signal

from world import World

SMALL = ("--steps", 12, "--layers", 2, "--width", 256)


def write(world: World, text: str) -> pathlib.Path:
    file = world.folder / "config" / "hocket" / "config.toml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return file


def test_a_coordinator_that_a_job_starts_has_what_the_file_says_until_people_set_another(world: World) -> None:
    write(world, '[coordinator]\npolicy = "srtf"\nswitch_share = 0.125\n[job]\nweight = 3\n')
    job = world.job("train", "--name", "job", "--hold", "4", *SMALL)
    job.expect("step 4")
    status = world.status()
    assert (status["daemon"]["policy"], status["daemon"]["switch_share"]) == ("srtf", 0.125)
    assert status["jobs"][0]["weight"] == 3
    assert world.hocket("policy", "fifo").returncode == 0
    os.kill(status["daemon"]["pid"], signal.SIGKILL)
    job.go_on()
    job.finishes()
    again = world.hocket("status", "--json")
    if again.returncode:  # the job ended before it noticed: another one starts the next coordinator
        world.job("train", *SMALL).finishes()
    daemon = world.status()["daemon"]
    assert daemon["pid"] != status["daemon"]["pid"]
    assert (daemon["policy"], daemon["switch_share"]) == ("fifo", 0.125)


def test_a_wrong_file_stops_a_job_before_it_has_begun(world: World) -> None:
    file = write(world, "[coordinator]\nswitch_share = 3\n")
    job = world.job("train", *SMALL)
    assert job.wait() != 0
    assert f"{file}:2: coordinator.switch_share is 3" in job.stderr
    assert not any(line.startswith("step") for line in job.lines)
    assert world.hocket("config", "check").returncode == 1
    assert world.hocket("status", "--json").returncode == 1  # no coordinator was started


def test_a_variable_that_is_wrong_stops_the_coordinator_with_its_name(world: World) -> None:
    for variable, value in (
        ("HOCKET_POLICY", "fare"),
        ("HOCKET_SWITCH_SHARE", "3"),
        ("HOCKET_GRACE_SECONDS", "soon"),
        ("HOCKET_LOG_LEVEL", "loud"),
    ):
        refused = world.hocket("serve", **{variable: value})
        assert refused.returncode in (1, 2)
        assert value in refused.stderr, refused.stderr
        assert variable == "HOCKET_LOG_LEVEL" or f"{variable}={value}" in refused.stderr


def test_the_command_line_wins_over_the_file(world: World) -> None:
    write(world, '[coordinator]\npolicy = "srtf"\n')
    serving = world.start("hocket", "serve", "--policy=round-robin", emulated=False)
    world.until_answered()
    assert world.status()["daemon"]["policy"] == "round-robin", serving.story()
