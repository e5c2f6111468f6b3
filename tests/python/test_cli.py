"""The command line, each as a process: what it sets, what it refuses, and that it never imports torch."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import pty
import re
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import click
import pytest
from hocket.cli import trace

PYTHON = pathlib.Path(__file__).parents[2] / "python"
# The command as a console script runs it, over the fake extensions.
START = """
import sys
sys.path[:0] = [{tests!r}, {python!r}]
import fakes
sys.modules["hocket._control"] = fakes.fake_control("0.0")
import _hocket_start
sys.argv[0] = "hocket"
try:
    _hocket_start.command_line()
finally:
    assert "torch" not in sys.modules, "the command line imports torch"
"""


def hocket(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    start = START.format(tests=str(pathlib.Path(__file__).parent), python=str(PYTHON))
    kept = {k: v for k, v in os.environ.items() if not k.startswith("HOCKET_")}
    environment = kept | {"HOCKET_CONFIG": os.devnull} | variables  # nobody's own config file
    return subprocess.run(
        [sys.executable, "-c", start, *arguments], capture_output=True, text=True, env=environment, timeout=300
    )


SHOW = (sys.executable, "-S", "-c", "import json, os; print(json.dumps(dict(os.environ)))")


def test_every_command_has_a_help_that_says_what_it_does() -> None:
    commands = hocket("--help").stdout
    sys.path.insert(0, str(PYTHON))
    from hocket.cli import COMMANDS

    for name, (_, text) in COMMANDS.items():
        assert name in commands
        answer = hocket(name, "--help")
        assert answer.returncode == 0, answer.stderr
        assert len(answer.stdout.splitlines()) > 3, f"{name}: {answer.stdout}"
        assert text


def test_run_becomes_the_command_with_the_options_in_its_environment() -> None:
    options = ("--name", "resnet", "--weight", "2", "--priority", "high", "--memory-limit", "20GiB")
    answer = hocket("run", *options, "--group", "vision", "--total-steps", "100", "--", *SHOW)
    environment = json.loads(answer.stdout)
    assert environment["HOCKET_RUN"] == "1"
    assert environment["HOCKET_NAME"] == "resnet"
    assert environment["HOCKET_WEIGHT"] == "2.0"
    assert environment["HOCKET_PRIORITY"] == "high"
    assert environment["HOCKET_GROUP"] == "vision"
    assert environment["HOCKET_MEMORY_LIMIT"] == str(20 << 30)
    assert environment["HOCKET_TOTAL_STEPS"] == "100"


def test_run_says_nothing_about_what_was_not_given() -> None:
    environment = json.loads(hocket("run", "--", *SHOW).stdout)
    assert {name for name in environment if name.startswith("HOCKET_")} == {"HOCKET_RUN", "HOCKET_CONFIG"}


def test_the_commands_own_options_are_its_own() -> None:
    answer = hocket("run", "--name", "a", "--", "echo", "--name", "b", "--help")
    assert answer.stdout == "--name b --help\n"


def test_the_exit_status_is_the_commands() -> None:
    assert hocket("run", "--", "sh", "-c", "exit 41").returncode == 41


def test_without_an_active_environment_hockets_own_python_is_found_first() -> None:
    path = json.loads(hocket("run", "--", *SHOW, VIRTUAL_ENV="", CONDA_PREFIX="").stdout)["PATH"]
    assert path.split(os.pathsep)[0] == os.path.dirname(sys.executable)
    untouched = json.loads(hocket("run", "--", *SHOW, VIRTUAL_ENV="/some/where").stdout)["PATH"]
    assert untouched == os.environ["PATH"]


@pytest.fixture
def another_environment(tmp_path: pathlib.Path) -> pathlib.Path:
    """A virtual environment that is not Hocket's, as an active one is: first on PATH."""
    venv = tmp_path / "other"
    (venv / "bin").mkdir(parents=True)
    base = pathlib.Path(sys.base_prefix, "bin", f"python3.{sys.version_info.minor}")
    (venv / "pyvenv.cfg").write_text(f"home = {base.parent}\ninclude-system-site-packages = false\n")
    (venv / "bin" / "python").symlink_to(base)
    return venv


def active(venv: pathlib.Path) -> dict[str, str]:
    return {"VIRTUAL_ENV": str(venv), "PATH": f"{venv / 'bin'}{os.pathsep}{os.environ['PATH']}"}


def test_run_says_that_the_python_is_of_an_environment_without_hocket(another_environment: pathlib.Path) -> None:
    python = another_environment / "bin" / "python"
    for word in ("python", str(python)):
        answer = hocket("run", "--", word, "-c", "print('trained')", **active(another_environment))
        assert (answer.returncode, answer.stdout) == (0, "trained\n"), answer.stderr
        first, second = answer.stderr.splitlines()
        assert first == (
            f"hocket: {python} is the Python of another environment ({another_environment}), which has no Hocket: the "
            "program takes no turns."
        )
        assert sys.executable in second


@pytest.mark.parametrize("command", [(sys.executable, "-c", ""), ("sh", "-c", "exec python -c ''"), ("python", "-V")])
def test_run_says_nothing_of_a_python_that_may_have_hocket(
    another_environment: pathlib.Path, command: tuple[str, ...]
) -> None:
    if command[0] == "python":
        installed = another_environment / "lib" / "python3.11" / "site-packages" / "hocket-1.0.dist-info"
        installed.mkdir(parents=True)
    answer = hocket("run", "--", *command, **active(another_environment))
    assert (answer.returncode, answer.stderr) == (0, "")


def test_run_looks_at_a_copied_python_that_has_the_systems_packages_once(another_environment: pathlib.Path) -> None:
    python, config = another_environment / "bin" / "python", another_environment / "pyvenv.cfg"
    base = python.resolve()
    python.unlink()
    shutil.copy(base, python)
    config.write_text(config.read_text().replace("= false", "= true"))
    answer = hocket("run", "--", "python", "-V", **active(another_environment))
    assert answer.returncode == 0 and "Traceback" not in answer.stderr, answer.stderr


def test_run_says_nothing_of_a_script_that_is_called_python(tmp_path: pathlib.Path) -> None:
    (tmp_path / "python").write_text("#!/bin/sh\n")  # which may choose another one, as pyenv's does
    (tmp_path / "python").chmod(0o755)
    answer = hocket("run", "--", "python", VIRTUAL_ENV="x", PATH=f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    assert (answer.returncode, answer.stderr) == (0, "")


def test_no_command_is_an_error_that_shows_one() -> None:
    answer = hocket("run")
    assert answer.returncode == 2
    assert "hocket run -- python train.py" in answer.stderr


@pytest.mark.parametrize("weight", ["0", "-1", "nan", "inf", "much"])
def test_a_weight_that_is_none_is_refused(weight: str) -> None:
    answer = hocket("run", "--weight", weight, "--", "true")
    assert answer.returncode == 2
    assert weight in answer.stderr


def test_a_memory_limit_above_the_device_is_refused_with_both_numbers() -> None:
    answer = hocket("run", "--memory-limit", "80GiB", "--", "true")
    assert answer.returncode == 2
    assert "80.0 GiB" in answer.stderr
    assert "64.0 GiB" in answer.stderr


def test_a_missing_command_has_the_shells_exit_status() -> None:
    answer = hocket("run", "--", "no-such-command-here")
    assert answer.returncode == 127
    assert "no-such-command-here" in answer.stderr


def test_an_emulation_inside_an_emulation_replaces_it(monkeypatch: pytest.MonkeyPatch) -> None:
    sys.path.insert(0, str(PYTHON))
    from hocket.cli import emulate

    monkeypatch.setenv("LD_PRELOAD", "/other.so")
    monkeypatch.delenv("LD_LIBRARY_PATH", raising=False)
    outer = emulate.variables("outer", 1 << 30, 1, timing=False, check=False)
    assert outer["LD_PRELOAD"] == f"{emulate.RUNTIME}:/other.so"
    for name, value in outer.items():
        monkeypatch.setenv(name, value)
    inner = emulate.variables("inner", 2 << 30, 2, timing=True, check=True)
    assert inner["LD_PRELOAD"] == outer["LD_PRELOAD"]
    assert inner["LD_LIBRARY_PATH"] == outer["LD_LIBRARY_PATH"]
    assert inner["HOCKET_EMULATOR_NAME"] == "inner"
    assert (inner["HOCKET_EMULATOR_MODE"], inner["HOCKET_EMULATOR_CHECK"]) == ("timing", "1")


@pytest.mark.parametrize("letter", [" ", ":", ";", "$"])
def test_emulate_refuses_a_path_that_cannot_be_preloaded(monkeypatch: pytest.MonkeyPatch, letter: str) -> None:
    sys.path.insert(0, str(PYTHON))
    from click.testing import CliRunner
    from hocket.cli import emulate

    monkeypatch.setattr(emulate, "LIBRARIES", pathlib.Path(f"/my{letter}programs/hocket"))
    monkeypatch.setattr(emulate, "RUNTIME", pathlib.Path(os.devnull))
    monkeypatch.setattr(emulate, "become", lambda *_: pytest.fail("it ran the command"))
    answer = CliRunner().invoke(emulate.command, ["--", "true"])
    assert answer.exit_code == 1
    assert f"/my{letter}programs/hocket" in answer.output and "a path with blanks, colons" in answer.output


@pytest.mark.parametrize(
    ("options", "said"),
    [(("--devices", "17"), "17"), (("--name", "a b"), "a b"), (("--memory", "-1"), "-1")],
)
def test_emulate_refuses_a_wrong_option_by_its_value(options: tuple[str, ...], said: str) -> None:
    answer = hocket("emulate", *options, "--", "true")
    assert answer.returncode == 2
    assert said in answer.stderr


def test_set_without_a_change_says_what_may_be_changed() -> None:
    answer = hocket("set", "job")
    assert answer.returncode == 2
    assert "--weight" in answer.stderr


@pytest.mark.parametrize("share", ["0", "0%", "25", "101%", "-5%", "nan", "half", ""])
def test_a_share_that_is_none_is_refused_with_what_to_write(share: str) -> None:
    answer = hocket("quota", "job", "--time-cap", share)
    assert answer.returncode == 2
    assert "write 25% or 0.25" in answer.stderr


def test_a_quota_is_somebodys() -> None:
    answer = hocket("quota", "--time-cap", "25%")
    assert answer.returncode == 2
    assert "name the JOB" in answer.stderr


# --- over a coordinator's answers -------------------------------------------------------------------

JOB = {
    "id": 1, "name": "resnet", "pid": 7, "device": "GPU-1", "state": "holds", "why": "has had the turn for 1.0 s",
    "total_steps": 100, "steps": 40, "persistent": 8 << 30, "transient": 0, "spilled": 0, "turns": 3,
    "step_time_ms": 12.5, "waited_s": 3.5, "slowdown": 1.75, "to_go_s": 42.0, "overdue": False,
}  # fmt: skip
DEVICE = {"uuid": "GPU-1", "name": "a GPU", "capacity": 16 << 30, "holder": "resnet", "arena": 2 << 30,
          "persistent": 8 << 30, "free": 6 << 30, "jobs": [1]}  # fmt: skip
DAEMON = {"pid": 5, "version": "0.0", "policy": "fair", "uptime_s": 3.0}


@pytest.fixture
def answers(tmp_path: pathlib.Path):
    """Lets the coordinator answer; returns the variable to run hocket with, and what was asked of it."""
    file = tmp_path / "answers.json"

    def set_answers(**by_command: object) -> dict[str, str]:
        new = file.with_suffix(".new")
        new.write_text(json.dumps(by_command))
        new.rename(file)  # who reads it meanwhile reads the old one or the new one
        return {"FAKE_ANSWERS": str(file)}

    def asked() -> list[list[object]]:
        return [json.loads(line) for line in (tmp_path / "answers.json.asked").read_text().splitlines()]

    return set_answers, asked


def test_status_shows_each_job_with_its_numbers_under_their_names(answers) -> None:
    fake, _ = answers
    status = {"daemon": DAEMON, "devices": [DEVICE], "jobs": [{**JOB, "spilled": 3 << 20}]}
    lines = hocket("status", **fake(status=status)).stdout.splitlines()
    head, row = (next(i for i, line in enumerate(lines) if word in line) for word in ("persistent", "resnet"))
    names, cells = (re.split(r" {2,}", lines[i].strip()) for i in (head, row))
    found = dict(zip(names, cells, strict=True))
    assert found == {
        "job": "resnet", "state": "holds", "turns": "3", "steps": "40/100", "step": "12.5 ms", "persistent": "8.0 GiB",
        "transient": "0.0 B", "spilled": "3.0 MiB", "why": "has had the turn for 1.0 s",
    }, lines  # fmt: skip


# What rich would read as its markup, one that is wrong, and an emoji.
WRITTEN = {"name": "exp[/a]", "why": "[debug] bert has had :fire: for 1.0 s"}


@pytest.mark.parametrize("command", [("status",), ("top", "--once")])
def test_what_jobs_and_devices_are_called_is_shown_as_it_is_written(answers, command: tuple[str, ...]) -> None:
    fake, _ = answers
    device = {**DEVICE, "name": "a [bold]GPU", "holder": WRITTEN["name"]}
    status = {"daemon": DAEMON, "devices": [device], "jobs": [{**JOB, **WRITTEN}]}
    answer = hocket(*command, **fake(status=status))
    assert answer.returncode == 0, answer.stderr
    for written in (*WRITTEN.values(), "a [bold]GPU"):
        assert written in answer.stdout


def test_top_shows_slowdown_time_to_go_and_why(answers) -> None:
    fake, _ = answers
    status = {"daemon": DAEMON, "devices": [DEVICE], "jobs": [JOB]}
    said = hocket("top", "--once", **fake(status=status)).stdout
    for part in ("policy fair", "turn: resnet", "40/100", "12.5 ms", "1.75x", "42.00 s", "6.0 GiB of 16.0 GiB free"):
        assert part in said, said
    assert "has had the turn" in said


def test_top_shows_no_slowdown_that_is_not_known(answers) -> None:
    fake, _ = answers
    status = {"daemon": DAEMON, "devices": [DEVICE], "jobs": [{**JOB, "slowdown": None}]}
    lines = hocket("top", "--once", **fake(status=status)).stdout.splitlines()
    head, row = (next(i for i, line in enumerate(lines) if word in line) for word in ("slowdown", "40/100"))
    names, cells = (re.split(r" {2,}", lines[i].strip()) for i in (head, row))
    assert dict(zip(names, cells, strict=True))["slowdown"] == "-", lines


def test_top_names_a_holder_that_is_overdue(answers) -> None:
    fake, _ = answers
    status = {"daemon": DAEMON, "devices": [DEVICE], "jobs": [{**JOB, "overdue": True, "to_go_s": None}]}
    said = hocket("top", "--once", **fake(status=status)).stdout
    assert "overdue" in said
    assert "?" in said


def test_top_as_data_is_the_status(answers) -> None:
    fake, _ = answers
    status = {"daemon": DAEMON, "devices": [], "jobs": []}
    assert json.loads(hocket("top", "--once", "--json", **fake(status=status)).stdout) == status


@pytest.fixture
def watching(tmp_path: pathlib.Path):
    """Starts a command that goes on until Ctrl-C; it must end well then."""
    started: list[subprocess.Popen[str]] = []

    def start(*arguments: str, **variables: str) -> subprocess.Popen[str]:
        program = [sys.executable, "-c", START.format(tests=str(pathlib.Path(__file__).parent), python=str(PYTHON))]
        environment = os.environ | {"HOCKET_CONFIG": os.devnull} | variables
        started.append(
            subprocess.Popen(
                [*program, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment,
                preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
            )
        )  # fmt: skip
        return started[-1]

    yield start
    for process in started:
        process.send_signal(signal.SIGINT)
        said = process.communicate(timeout=300)[1]
        assert (process.returncode, said) == (0, "")


@pytest.mark.parametrize("command", [("top",), ("status", "--watch")])
def test_who_watches_goes_on_while_no_coordinator_runs(answers, watching, command: tuple[str, ...]) -> None:
    fake, _ = answers
    status = {"daemon": DAEMON, "devices": [], "jobs": []}
    none = {"daemon": None, "devices": [], "jobs": []}
    watch = watching(*command, "--interval", "0.05", "--json", **fake(status=None))
    assert watch.stdout
    assert json.loads(watch.stdout.readline()) == none
    for there in (status, none, status):
        fake(status=there if there["daemon"] else None)
        assert any(json.loads(line) == there for line in watch.stdout), watch.stderr.read()


def test_top_goes_on_while_no_coordinator_runs(answers) -> None:
    fake, _ = answers
    primary, secondary = pty.openpty()
    start = START.format(tests=str(pathlib.Path(__file__).parent), python=str(PYTHON))
    environment = os.environ | {"HOCKET_CONFIG": os.devnull, "TERM": "xterm", "COLUMNS": "160"} | fake(status=None)
    with subprocess.Popen(
        [sys.executable, "-c", start, "top", "--interval", "0.05"], stdout=secondary, stderr=secondary, env=environment,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    ) as top:  # fmt: skip
        os.close(secondary)
        read_until(primary, "No coordinator runs at /nowhere")
        fake(status={"daemon": DAEMON, "devices": [], "jobs": []})
        read_until(primary, "policy fair, 0 jobs")
        fake(status=None)
        read_until(primary, "No coordinator runs at /nowhere")
        top.send_signal(signal.SIGINT)
        with contextlib.suppress(OSError):  # it has ended
            while os.read(primary, 65536):  # a full terminal would keep it from ending
                pass
    os.close(primary)
    assert top.returncode == 0


def read_until(terminal: int, text: str) -> None:
    said = ""
    while text not in said:
        ready, _, _ = select.select([terminal], [], [], 120)
        assert ready, f"no {text!r} in {said!r}"
        try:
            said += os.read(terminal, 65536).decode(errors="replace")  # what comes at once may end within a letter
        except OSError:
            raise AssertionError(f"it ended without {text!r}: {said!r}") from None


def test_set_tells_the_coordinator_what_was_given_and_nothing_else(answers) -> None:
    fake, asked = answers
    answer = hocket("set", "resnet", "--total-steps", "500", "--priority", "high", **fake(set=JOB))
    assert answer.stdout == "resnet: priority high, total steps 500\n"
    assert asked() == [["set", {"job": "resnet", "priority": "high", "total_steps": 500}]]


MEMORY = {"memory_cap": None, "memory_guarantee": 0, "memory_held": 3 << 30, "memory_resident": 1 << 30}
CAPPED = {
    **MEMORY,
    "job": 1,
    "name": "resnet",
    "time_cap": 0.25,
    "time_used": 0.2496,
    "window_s": 10.0,
    "may_go_on_in_s": 0.4,
}
FREE = {**MEMORY, "job": 2, "name": "bert", "time_cap": None}


def test_policy_sets_the_bound_and_shows_it_where_it_counts(answers) -> None:
    fake, asked = answers
    policy = {"policy": "priority", "bound": 0.05, "policies": []}
    answer = hocket(
        "policy", "priority", "--bound", "5%", **fake(**{"policy": policy, "switch-share": {"share": 0.02}})
    )
    assert answer.stdout.splitlines()[-1] == "jobs of high priority are slowed down by the others by at most 5.0%"
    assert asked()[0] == ["policy", {"name": "priority", "bound": 0.05}]


def test_policy_sets_all_at_once_or_nothing(answers) -> None:
    fake, asked = answers
    now = {"policy": "fair", "switch_share": 0.1, "policies": []}
    answer = hocket("policy", "fair", "--switch-share", "0.1", **fake(policy=now))
    assert answer.stdout == "policy fair; hand-overs that move bytes take at most 10.0% of the time\n"
    assert asked() == [["policy", {"name": "fair", "switch_share": 0.1}]]


def test_policy_takes_the_switch_share_as_it_takes_other_shares(answers) -> None:
    fake, asked = answers
    answer = hocket("policy", "--switch-share", "5%", **fake(policy={"policy": "fair", "switch_share": 0.05}))
    assert answer.stdout == "policy fair; hand-overs that move bytes take at most 5.0% of the time\n"
    assert asked() == [["policy", {"switch_share": 0.05}]]


@pytest.mark.parametrize(
    ("link_bound", "overdue", "said"),
    [
        (0.02, "wait", ["by at most 2.0%", "the others wait"]),
        (1.0, "go-on", ["without a limit", "the others go on beside it, where they fit"]),
    ],
)
def test_policy_shows_what_is_set_now_of_the_link_and_of_holders_that_hang(
    answers, link_bound: float, overdue: str, said: list[str]
) -> None:
    fake, _ = answers
    now = {"policy": "fair", "switch_share": 0.02, "link_bound": link_bound, "overdue": overdue, "policies": []}
    assert hocket("policy", **fake(policy=now)).stdout.splitlines()[1:] == [
        f"bytes moved for others slow a holder down {said[0]}",
        f"while a holder does not give its turn up, {said[1]}",
    ]


def test_an_older_coordinator_is_told_the_switch_share_by_itself(answers) -> None:
    fake, asked = answers
    older = {"policy": {"policy": "fair", "policies": []}, "switch-share": {"share": 0.1}}
    answer = hocket("policy", "--switch-share", "0.1", "--json", **fake(**older))
    assert json.loads(answer.stdout)["switch_share"] == 0.1
    assert asked()[1:] == [["switch-share", {"share": 0.1}]]


@pytest.mark.parametrize("number", ["nan", "inf", "-inf", "much"])
@pytest.mark.parametrize(
    "command",
    [
        ("policy", "--switch-share"),
        ("top", "--interval"),
        ("status", "--watch", "--interval"),
        ("simulate", os.devnull, "--hand-over-ms"),
    ],
)
def test_a_number_that_is_none_is_refused(answers, command: tuple[str, ...], number: str) -> None:
    fake, _ = answers
    answer = hocket(*command, number, **fake())
    assert answer.returncode == 2, answer
    assert "Error: Invalid value for" in answer.stderr and number in answer.stderr


def test_policy_sets_how_much_bytes_of_others_may_cost_a_holder(answers) -> None:
    fake, asked = answers
    policy = {"policy": "fair", "link_bound": 0.05, "policies": []}
    answer = hocket("policy", "--link-bound", "5%", **fake(**{"policy": policy, "switch-share": {"share": 0.02}}))
    assert answer.stdout.splitlines()[1:] == ["bytes moved for others slow a holder down by at most 5.0%"]
    assert asked()[0] == ["policy", {"link_bound": 0.05}]


def test_policy_sets_how_many_run_together_and_what_others_do_beside_one_that_hangs(answers) -> None:
    fake, asked = answers
    policy = {"policy": "pack", "bound": 0.02, "together": 3, "overdue": "go-on", "policies": []}
    answer = hocket(
        *["policy", "pack", "--together", "3", "--overdue", "go-on"],
        **fake(**{"policy": policy, "switch-share": {"share": 0.02}}),
    )
    assert answer.stdout.splitlines()[1:] == [
        "at most 3 jobs run at the same time",
        "while a holder does not give its turn up, the others go on beside it, where they fit",
    ]
    assert asked()[0] == ["policy", {"name": "pack", "together": 3, "overdue": "go-on"}]


@pytest.mark.parametrize(
    ("given", "told"),
    [("25%", 0.25), ("0.25", 0.25), ("12.5 %", 0.125), ("100%", 1.0), ("none", None)],
)
def test_quota_tells_the_coordinator_the_cap(answers, given: str, told: float | None) -> None:
    fake, asked = answers
    answer = hocket("quota", "resnet", "--time-cap", given, **fake(quota={"quotas": [CAPPED]}))
    assert answer.stdout == "resnet: time cap 25%; has had 25.0% of the last 10.0 s; may go on in 400.0 ms\n"
    assert asked() == [["quota", {"job": "resnet", "time_cap": told}]]


def test_quota_sets_memory_and_says_when_a_job_holds_more(answers) -> None:
    fake, asked = answers
    quota = {**FREE, "memory_cap": 2 << 30, "memory_guarantee": 1 << 30}
    options = ("--memory-cap", "2GiB", "--memory-guarantee", "none")
    answer = hocket("quota", "bert", *options, **fake(quota={"quotas": [quota]}))
    assert answer.stdout == (
        "bert: memory cap 2.0 GiB; memory guarantee 1.0 GiB; holds 3.0 GiB, 1.0 GiB of it on the device; "
        "more than its cap: it keeps that, and gets no more\n"
    )
    assert asked() == [["quota", {"job": "bert", "memory_cap": 2 << 30, "memory_guarantee": None}]]


VISION = {
    "kind": "group",
    "name": "vision",
    "time_cap": 0.5,
    "time_guarantee": 0.25,
    "memory_guarantee": 1 << 30,
    "jobs": ["resnet", "bert"],
    "devices": [{"device": "H200", "time_used": 0.251, "window_s": 10.0, "may_go_on_in_s": 0, "owed_s": 0.02}],
}


def test_quota_guarantees_time(answers) -> None:
    fake, asked = answers
    quota = {**FREE, "time_guarantee": 0.25, "time_used": 0.24, "window_s": 10.0, "owed_s": 0.1}
    answer = hocket("quota", "bert", "--time-guarantee", "25%", **fake(quota={"quotas": [quota], "together": []}))
    assert answer.stdout == "bert: time guarantee 25%; has had 24.0% of the last 10.0 s; is owed 100.0 ms\n"
    assert asked() == [["quota", {"job": "bert", "time_guarantee": 0.25}]]


def test_quota_is_a_groups_or_a_users(answers) -> None:
    fake, asked = answers
    nobody = {**VISION, "kind": "user", "uid": 0, "time_cap": None, "memory_guarantee": 0, "jobs": [], "devices": []}
    tell = fake(quota={"quotas": [], "together": [VISION, nobody]})
    assert hocket("quota", "--group", "vision", "--time-cap", "50%", **tell).stdout.splitlines() == [
        "group vision: time cap 50%; time guarantee 25%; memory guarantee 1.0 GiB; "
        "on H200, has had 25.1% of the last 10.0 s, is owed 20.0 ms; jobs: resnet, bert",
        "user root: time guarantee 25%; no job now",
    ]
    hocket("quota", "--user", "root", "--time-guarantee", "none", **tell)
    hocket("quota", "--user", "123", **tell)
    hocket("quota", "--user", "123", "--weight", "2", **tell)
    hocket("quota", "--user", "123", "--weight", "none", **tell)
    assert asked() == [
        ["quota", {"group": "vision", "time_cap": 0.5}],
        ["quota", {"user": 0, "time_guarantee": None}],
        ["quota", {"user": 123}],
        ["quota", {"user": 123, "weight": 2.0}],
        ["quota", {"user": 123, "weight": None}],
    ]


def test_a_weight_is_a_users_or_a_jobs_and_the_command_for_each_is_named(answers) -> None:
    fake, _ = answers
    answer = hocket("quota", "--group", "vision", "--weight", "2", **fake(quota={}))
    assert answer.returncode == 2
    assert "hocket set JOB --weight W" in " ".join(answer.stderr.replace("│", " ").split())
    weighed = {**VISION, "kind": "user", "uid": 0, "time_cap": None, "time_guarantee": None, "memory_guarantee": 0}
    tell = fake(quota={"quotas": [], "together": [{**weighed, "weight": 2.5, "jobs": [], "devices": []}]})
    assert hocket("quota", **tell).stdout == "user root: weight 2.5; no job now\n"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("resnet", "--group", "vision"), "give one of JOB, --group and --user"),
        (("--group", "two words"), "'two words' is no name of a group: letters, digits"),
        (("--group", "none"), "none means no group"),
        (("--user", "nobody-of-that-name"), "there is no user 'nobody-of-that-name'"),
    ],
)
def test_whose_quota_it_is_has_to_be_clear(options: tuple[str, ...], said: str) -> None:
    answer = hocket("quota", *options)
    assert answer.returncode == 2
    assert said in answer.stderr


def test_set_puts_a_job_into_a_group_and_takes_it_out(answers) -> None:
    fake, asked = answers
    assert hocket("set", "resnet", "--group", "vision", **fake(set=JOB)).stdout == "resnet: group vision\n"
    assert hocket("set", "resnet", "--group", "none", **fake(set=JOB)).stdout == "resnet: group none\n"
    assert asked() == [["set", {"job": "resnet", "group": group}] for group in ("vision", None)]


@pytest.mark.parametrize("limit", ["0", "-1"])
def test_a_memory_limit_that_is_none_is_refused(limit: str) -> None:
    for command in (("set", "job", "--memory-limit"), ("quota", "job", "--memory-cap")):
        answer = hocket(*command, limit)
        assert answer.returncode == 2
        assert "it must be > 0, for example 8GiB" in answer.stderr


def test_set_of_a_memory_limit_says_when_the_job_holds_more(answers) -> None:
    fake, asked = answers
    answer = hocket("set", "resnet", "--memory-limit", "2GiB", **fake(set=JOB))
    assert answer.stdout.splitlines() == [
        "resnet: memory limit 2.0 GiB",
        "resnet holds 8.0 GiB, more than its limit: it keeps that, and gets no more",
    ]
    answer = hocket("set", "resnet", "--memory-limit", "none", **fake(set=JOB))
    assert answer.stdout == "resnet: memory limit none\n"
    assert asked() == [["set", {"job": "resnet", "memory_limit": limit}] for limit in (2 << 30, None)]


def test_quota_shows_all_jobs_and_changes_nothing(answers) -> None:
    fake, asked = answers
    said = hocket("quota", **fake(quota={"quotas": [{**CAPPED, "may_go_on_in_s": 0}, FREE]})).stdout
    assert said == "resnet: time cap 25%; has had 25.0% of the last 10.0 s\nbert: no quota\n"
    assert hocket("quota", **fake(quota={"quotas": []})).stdout == "no job runs.\n"
    assert asked() == [["quota", {}]] * 2


def test_explain_says_what_is_foretold_and_how_that_held(answers) -> None:
    fake, _ = answers
    step = {"mean_ms": 20.0, "spread_ms": 1.0, "lower_ms": 18.5, "upper_ms": 22.0, "foretold": 200, "inside": 170}
    gap = {"mean_ms": 1500.0, "spread_ms": 9.0, "lower_ms": 900.0, "upper_ms": 2000.0, "foretold": 3, "inside": 3}
    measured = {"step": step, "beside": None, "gap": gap, "ready": {"mean_ms": 0.1, "spread_ms": 0.1}}
    said = hocket("explain", "resnet", **fake(explain={"name": "resnet", "why": "waits", "measured": measured})).stdout
    assert said == (
        "resnet waits.\n"
        "  a step: 20.0 ms, usually 18.5 ms to 22.0 ms (true for 85% of 200)\n"
        "  between two turns: 1.50 s, usually 900.0 ms to 2.00 s\n"
        "  to be ready: 0.1 ms\n"
    )


def a_move(**other: object) -> dict[str, object]:
    nothing = {"moves": 0, "bytes": 0, "copied": 0, "s": 0.0, "foretold_bytes": 0, "bytes_error": None,
               "timed": {"moves": 0, "s": 0.0, "foretold_s": 0.0, "error": None}, "last": None,
               "now": {"bytes": 0, "s": None}}  # fmt: skip
    return nothing | other


def test_explain_says_what_moved_and_what_the_allocator_foresaw(answers) -> None:
    fake, _ = answers
    timed = {"moves": 11, "s": 2.0, "foretold_s": 1.9, "error": 0.124}
    spill = a_move(moves=12, bytes=3 << 30, s=2.5, bytes_error=0.004, timed=timed, now={"bytes": 1 << 30, "s": 0.25})
    restore = a_move(now={"bytes": 1 << 20, "s": None})
    allocator = {"allocations": 2000, "planned": 1996, "deviated": 3, "survived": 4 << 20, "foreseen": 3 << 20,
                 "adopted": 1 << 20, "adopted_last": 3 << 19, "adopted_total": 2 << 20}  # fmt: skip
    told = {"name": "resnet", "why": "waits", "moves": {"spill": spill, "restore": restore}, "allocator": allocator}
    assert hocket("explain", "resnet", **fake(explain=told)).stdout == (
        "resnet waits.\n"
        "  spills: 12, 3.0 GiB in 2.50 s; foretold but for 0% of the bytes, 12% of the time; "
        "all of it now: 1.0 GiB, 250.0 ms\n"
        "  restores: all of it now: 1.0 MiB\n"
        "  placed by plan: 99.8% of 2000 allocations in steps, 3 deviated\n"
        "  survivors: 75.0% of 4.0 MiB foreseen; "
        "adopted 1.5 MiB at the last hand-over, 2.0 MiB in all, 1.0 MiB held now\n"
    )


def test_explain_says_nothing_of_what_has_not_been(answers) -> None:
    fake, _ = answers
    told = {"name": "resnet", "why": "waits", "moves": {"spill": a_move(), "restore": a_move()}, "allocator": None}
    assert hocket("explain", "resnet", **fake(explain=told)).stdout == "resnet waits.\n"


@pytest.mark.parametrize(
    "command",
    [
        ("quota", "resnet", "--time-cap", "5%"),
        ("set", "resnet", "--weight", "2"),
        ("explain", "resnet"),
        ("pause", "resnet"),
        ("resume", "resnet"),
    ],
)
def test_an_answer_as_data_is_the_coordinators(answers, command: tuple[str, ...]) -> None:
    fake, _ = answers
    answer = hocket(*command, "--json", **fake(**{command[0]: JOB}))
    assert json.loads(answer.stdout) == JOB, answer.stderr


def test_trace_collects_every_page_and_begins_with_the_first_arrival(answers, tmp_path: pathlib.Path) -> None:
    fake, _ = answers
    turn = {"turn": 1, "job": 1, "name": "a", "device": "GPU-1", "start_ns": 5_000, "end_ns": 9_000, "ready_ns": 1_000,
            "steps": 2, "restored": 0, "ahead": 0, "spilled": 0, "died": False, "reason": "came first"}  # fmt: skip
    later = turn | {"start_ns": 20_000, "end_ns": 29_000, "waited_ns": 4_000, "restored": 64}
    pages = [{"turns": [turn], "next": 1}, {"turns": [later], "next": 2}, {"turns": [], "next": 2}]
    jobs = {"jobs": [{"name": "b", "arrival_s": 12.0, "steps": 3}, {"name": "a", "arrival_s": 10.0, "steps": 2}]}
    spill = {"job": 2, "name": "b", "device": "GPU-1", "for_job": 1, "for": "a", "start_ns": 17_000, "end_ns": 19_000,
             "bytes": 64}  # fmt: skip
    spills = [{"spills": [spill], "next": 1}, {"spills": [], "next": 1}]
    variables = fake(history={"folder": None}, jobs=jobs, turns=pages, spills=spills)
    answer = hocket("trace", "-o", str(tmp_path / "day.json"), **variables)
    assert answer.stdout == f"{tmp_path}/day.json: 2 jobs, 2 turns, 1 spills\n", answer.stderr
    written = json.loads((tmp_path / "day.json").read_text())
    assert [job["arrival_s"] for job in written["jobs"]] == [2.0, 0.0]
    ahead = time.time_ns() - time.monotonic_ns()
    starts = [turn["start_ns"] for turn in written["turns"]]
    assert starts[1] - starts[0] == 15_000 and abs(starts[0] - ahead) < 60e9, "Unix time"

    hocket("trace", "--perfetto", "-o", str(tmp_path / "turns.json"), **variables)
    events = json.loads((tmp_path / "turns.json").read_text())["traceEvents"]
    threads = {e["tid"]: e["args"]["name"] for e in events if e["name"] == "thread_name"}
    shown = [e for e in events if e["ph"] == "X"]
    first = shown[0]["ts"]
    assert [(threads[e["tid"]], e["name"], e["ts"] - first, e["dur"]) for e in shown] == [
        ("a", "gets ready", 0.0, 1.0),
        ("a", "turn", 1.0, 3.0),
        ("b", "spills", 12.0, 2.0),
        ("a", "waits", 11.0, 4.0),
        ("a", "restores", 15.0, 1.0),
        ("a", "turn", 16.0, 8.0),
    ]
    assert shown[2]["args"] == {"bytes": 64, "for": "a"}
    assert all(e["ts"] >= 0 and {"pid", "tid"} <= e.keys() for e in shown), "as ui.perfetto.dev wants them"


def test_trace_says_why_it_writes_what_is_remembered(answers, tmp_path: pathlib.Path) -> None:
    fake, _ = answers
    recorded = {"folder": "/f", "records": 5, "written": 3, "lost": 2, "trouble": "cannot write /f/1: no space"}
    variables = fake(
        history=recorded, jobs={"jobs": []}, turns=[{"turns": [], "next": 0}], spills=[{"spills": [], "next": 0}]
    )
    answer = hocket("trace", "-o", str(tmp_path / "day.json"), **variables)
    assert answer.returncode == 0, answer.stderr
    assert answer.stderr == (
        "cannot write /f/1: no space. These are the turns that the coordinator remembers, 100,000 at most.\n"
    )
    assert json.loads((tmp_path / "day.json").read_text()) == {"jobs": [], "turns": [], "spills": []}


def test_trace_ends_also_where_turns_end_faster_than_they_are_asked_for(answers, tmp_path: pathlib.Path) -> None:
    fake, asked = answers
    turn = {"turn": 1, "job": 1, "name": "a", "device": "GPU-1", "start_ns": 0, "end_ns": 9}
    pages = [{"turns": [turn], "next": i + 1, "end": 3 + i} for i in range(10)]  # each time one more
    variables = fake(history={"folder": None}, jobs={"jobs": []}, turns=pages, spills=[{"spills": [], "next": 0}])
    answer = hocket("trace", "-o", str(tmp_path / "day.json"), **variables)
    assert "3 turns" in answer.stdout, answer.stderr
    assert [arguments["since"] for command, arguments in asked() if command == "turns"] == [0, 1, 2]


@pytest.fixture
def recorded(answers, tmp_path: pathlib.Path):
    """Variables under which `hocket trace` reads a history with this shell script."""
    fake, _ = answers

    def variables(script: str) -> dict[str, str]:
        reader = tmp_path / "hocketd"
        reader.write_text(f"#!/bin/sh\n{script}\n")
        reader.chmod(0o755)
        history = {"folder": str(tmp_path), "records": 0, "written": 0, "lost": 0, "trouble": ""}
        return {**fake(history=history), "HOCKET_DAEMON": str(reader)}

    return variables


A_TURN = {"turn": 1, "job": 1, "name": "a", "device": "GPU-1", "start_ns": 5_000, "end_ns": 9_000, "ready_ns": 1_000,
          "steps": 2, "restored": 0, "spilled": 0, "died": False, "reason": "came first"}  # fmt: skip


@pytest.mark.parametrize(
    ("script", "said"),
    [
        (f"echo '{json.dumps(A_TURN)}'; printf '{{\"turn\": 2'; kill -9 $$", "was ended by signal 9"),
        (f"echo '{json.dumps(A_TURN)}'; kill -9 $$", "was ended by signal 9"),
        ("echo 'hocketd history: no, and why' >&2; exit 1", "Error: no, and why\n"),
    ],
)
@pytest.mark.parametrize("options", [["--perfetto"], []])
def test_a_picture_that_cannot_be_made_replaces_none(
    recorded, tmp_path: pathlib.Path, script: str, said: str, options: list[str]
) -> None:
    output = tmp_path / "turns.json"
    output.write_text("of yesterday")
    if not options:
        script = f'for word; do case $word in --output=*) echo half > "${{word#--output=}}";; esac; done; {script}'
    answer = hocket("trace", *options, "-o", str(output), **recorded(script))
    assert answer.returncode == 1 and "Traceback" not in answer.stderr
    assert said in answer.stderr
    assert output.read_text() == "of yesterday"
    assert not (tmp_path / "turns.json.new").exists()


def test_a_trace_replaces_what_a_link_names_and_not_a_device(recorded, tmp_path: pathlib.Path) -> None:
    summary = json.dumps({"jobs": 0, "turns": 1, "spills": 0})
    variables = recorded(f"echo '{json.dumps(A_TURN)}'; echo '{summary}' >&2")
    (tmp_path / "there.json").touch()
    (tmp_path / "link.json").symlink_to("there.json")
    os.mkfifo(tmp_path / "pipe")
    with open(os.open(tmp_path / "pipe", os.O_RDWR | os.O_NONBLOCK), "rb", buffering=0) as pipe:
        for name in ("link.json", "pipe"):
            answer = hocket("trace", "--perfetto", "-o", str(tmp_path / name), **variables)
            assert answer.returncode == 0, answer.stderr
        assert (
            json.loads(pipe.read(65536))["traceEvents"]
            == json.loads((tmp_path / "there.json").read_text())["traceEvents"]
        )
    assert (tmp_path / "link.json").is_symlink() and (tmp_path / "pipe").is_fifo()


@pytest.mark.parametrize("since", ["24", "h", "-1h", "0s", "nanh", "1w", ""])
def test_a_time_that_is_none_is_refused_with_what_to_write(since: str) -> None:
    answer = hocket("trace", "-o", "/dev/null", "--since", since)
    assert answer.returncode == 2
    assert "write 24h, 90m, 30s or 7d" in answer.stderr


def test_trace_that_cannot_be_written_says_why(answers) -> None:
    fake, _ = answers
    answer = hocket(
        "trace",
        "-o",
        "/no/such/folder/x",
        **fake(
            history={"folder": None},
            jobs={"jobs": []},
            turns=[{"turns": [], "next": 0}],
            spills=[{"spills": [], "next": 0}],
        ),
    )
    assert answer.returncode == 1
    assert "/no/such/folder/x: No such file or directory" in answer.stderr


def test_a_trace_is_written_as_a_whole_or_not_at_all(tmp_path: pathlib.Path) -> None:
    def parts() -> Iterator[str]:
        yield "half"
        raise OSError(28, "No space left on device")

    day = tmp_path / "day.json"
    day.write_text("yesterday's")
    day.chmod(0o600)
    link = tmp_path / "link"
    link.symlink_to(day)
    with pytest.raises(click.ClickException, match="No space left on device"), trace._in_place_of(link) as file:
        trace._write(file, parts())
    assert day.read_text() == "yesterday's"
    with trace._in_place_of(link) as file:
        trace._write(file, ["today's"])
    assert (day.read_text(), day.stat().st_mode & 0o777, link.is_symlink()) == ("today's", 0o600, True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["day.json", "link"]
    with trace._in_place_of(pathlib.Path("/dev/null")) as file:
        trace._write(file, ["nothing"])
    assert pathlib.Path("/dev/null").is_char_device()


def test_simulate_passes_on_what_the_coordinator_says(tmp_path: pathlib.Path) -> None:
    daemon = tmp_path / "hocketd"
    daemon.write_text('#!/bin/sh\necho "hocketd simulate: line 3: no" >&2\nexit 1\n')
    daemon.chmod(0o755)
    (tmp_path / "jobs.csv").write_text("steps\n1\n")
    answer = hocket("simulate", str(tmp_path / "jobs.csv"), HOCKET_DAEMON=str(daemon))
    assert (answer.returncode, answer.stderr) == (1, "Error: line 3: no\n")


SECONDS = ("mean_jct_s", "median_jct_s", "p95_jct_s", "p99_jct_s", "mean_queue_s", "makespan_s")
SIMULATED = {
    "policies": {
        "fair": dict.fromkeys(SECONDS, 7.5)
        | {"mean_slowdown": 1.0, "busy": 1.0, "turns": 4, "ends": [{"arrival_s": 0.0, "end_s": 7.5}]}
    }
}


@pytest.fixture
def simulates(tmp_path: pathlib.Path):
    """``hocket simulate`` over a coordinator's program that answers at once, and leaves the file `ran`."""
    (tmp_path / "answer.json").write_text(json.dumps(SIMULATED))
    daemon = tmp_path / "hocketd"
    daemon.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\ncat {tmp_path}/answer.json\n")
    daemon.chmod(0o755)
    (tmp_path / "jobs.csv").write_text("steps\n1\n")
    return lambda *options, **variables: hocket(
        "simulate", str(tmp_path / "jobs.csv"), *options, HOCKET_DAEMON=str(daemon), **variables
    )


@pytest.mark.parametrize(
    ("picture", "said"), [("no/such/x.png", "there is no folder"), ("x.doc", "Let it end in .png")]
)
def test_simulate_says_before_it_plays_that_no_picture_can_be_drawn(
    simulates, tmp_path: pathlib.Path, picture: str, said: str
) -> None:
    answer = simulates("--picture", str(tmp_path / picture))
    assert answer.returncode == 1 and "Traceback" not in answer.stderr
    assert f"{tmp_path / picture}: " in answer.stderr and said in answer.stderr
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("option", [[], ["--json"]])
def test_simulate_shows_its_results_also_where_the_picture_fails(
    simulates, tmp_path: pathlib.Path, option: list[str]
) -> None:
    answer = simulates("--picture", str(tmp_path / "x.png"), *option)
    assert answer.returncode == 0, answer.stderr
    assert (tmp_path / "x.png").stat().st_size > 0
    (tmp_path / "x.png").unlink()
    (tmp_path / "x.png").symlink_to("/dev/full")
    answer = simulates("--picture", str(tmp_path / "x.png"), *option)
    assert "7.5" in answer.stdout and "Picture" not in answer.stdout
    assert answer.returncode == 1 and "Traceback" not in answer.stderr
    assert f"cannot draw {tmp_path / 'x.png'}: " in answer.stderr and "No space left" in answer.stderr


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ("kill -SEGV $$", "was ended by SIGSEGV"),
        ("echo half >&2; kill -KILL $$", "was ended by SIGKILL, and said: half"),
        ("exit 3", "ended with status 3 and said nothing"),
        ("printf 'hocketd simulate: \\377: no' >&2; exit 1", "\ufffd: no"),
    ],
)
def test_a_simulator_that_dies_is_named_with_what_ended_it(tmp_path: pathlib.Path, script: str, why: str) -> None:
    daemon = tmp_path / "hocketd"
    daemon.write_text(f"#!/bin/sh\n{script}\n")
    daemon.chmod(0o755)
    (tmp_path / "jobs.csv").write_text("steps\n1\n")
    answer = hocket("simulate", str(tmp_path / "jobs.csv"), HOCKET_DAEMON=str(daemon))
    assert answer.returncode == 1
    assert answer.stderr.startswith("Error: ")
    assert why in answer.stderr
    assert (str(daemon) in answer.stderr) == ("ended" in why)


@pytest.mark.parametrize("picture", [False, True])
def test_what_a_simulation_has_no_number_for_is_a_dash(tmp_path: pathlib.Path, picture: bool) -> None:
    names = ("mean_jct_s", "median_jct_s", "p95_jct_s", "p99_jct_s", "mean_queue_s", "makespan_s")
    ends = [{"arrival_s": 0, "end_s": None}, {"arrival_s": 1, "end_s": 3.5}]
    report = {**dict.fromkeys((*names, "mean_slowdown", "busy")), "turns": 5, "ends": ends}
    daemon = tmp_path / "hocketd"
    daemon.write_text(f"#!/bin/sh\necho '{json.dumps({'policies': {'fair': report}})}'\n")
    daemon.chmod(0o755)
    (tmp_path / "jobs.csv").write_text("steps\n1\n")
    drawn = ("--picture", str(tmp_path / "picture.png")) if picture else ()
    answer = hocket("simulate", str(tmp_path / "jobs.csv"), *drawn, HOCKET_DAEMON=str(daemon))
    assert answer.returncode == 0, answer.stderr
    assert re.search(r"fair( +-){8} +5", answer.stdout)


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_completion_is_a_script_of_that_shell(shell: str) -> None:
    answer = hocket("completion", shell)
    assert f"_HOCKET_COMPLETE={shell}_complete" in answer.stdout


def test_words_are_completed() -> None:
    words = {"COMP_WORDS": "hocket si", "COMP_CWORD": "1", "_HOCKET_COMPLETE": "bash_complete"}
    assert "simulate" in hocket(**words).stdout


COMPLETES = r"""
fpath=({folder} $fpath)
autoload -Uz compinit && compinit -D -u
PS1='ready> '
"""


def test_zsh_completes_hockets_words(tmp_path: pathlib.Path) -> None:
    """In a real zsh, at a terminal: what is typed becomes the only word that begins so."""
    (tmp_path / "_hocket").write_text(hocket("completion", "zsh").stdout)
    start = START.format(tests=str(pathlib.Path(__file__).parent), python=str(PYTHON))
    (tmp_path / "start.py").write_text(start)
    (tmp_path / "hocket").write_text(f'#!/bin/sh\nexec {sys.executable} {tmp_path}/start.py "$@"\n')
    (tmp_path / "hocket").chmod(0o755)
    (tmp_path / ".zshrc").write_text(COMPLETES.format(folder=tmp_path))
    environment = {"ZDOTDIR": str(tmp_path), "PATH": f"{tmp_path}:{os.environ['PATH']}", "TERM": "dumb"}
    child, terminal = pty.fork()
    if child == 0:
        with contextlib.suppress(OSError):
            os.execvpe("zsh", ["zsh", "-d", "-i"], environment | {"HOME": str(tmp_path), "HOCKET_CONFIG": os.devnull})
        os._exit(127)  # there is none: the tests are the parent's to go on with
    try:
        _read_until(terminal, "ready> ")
        os.write(terminal, b"hocket tra\t")
        _read_until(terminal, "trace ")
        os.write(terminal, b"--perf\t")
        _read_until(terminal, "--perfetto")
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(terminal)


def _read_until(terminal: int, wanted: str) -> None:
    """What is shown until it holds ``wanted``; fails where nothing more comes."""
    said = ""
    while wanted not in said:
        assert select.select([terminal], [], [], 60)[0], f"no {wanted!r} in what zsh shows:\n{said}"
        said += os.read(terminal, 4096).decode(errors="replace")
