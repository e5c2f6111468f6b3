"""The command line, each as a process: what it sets, what it refuses, and that it never imports torch."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys

import pytest

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
    environment = {k: v for k, v in os.environ.items() if not k.startswith("HOCKET_")} | variables
    return subprocess.run(
        [sys.executable, "-c", start, *arguments], capture_output=True, text=True, env=environment, timeout=60
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
    answer = hocket("run", *options, "--total-steps", "100", "--", *SHOW)
    environment = json.loads(answer.stdout)
    assert environment["HOCKET_RUN"] == "1"
    assert environment["HOCKET_NAME"] == "resnet"
    assert environment["HOCKET_WEIGHT"] == "2.0"
    assert environment["HOCKET_PRIORITY"] == "high"
    assert environment["HOCKET_MEMORY_LIMIT"] == str(20 << 30)
    assert environment["HOCKET_TOTAL_STEPS"] == "100"


def test_run_says_nothing_about_what_was_not_given() -> None:
    environment = json.loads(hocket("run", "--", *SHOW).stdout)
    assert {name for name in environment if name.startswith("HOCKET_")} == {"HOCKET_RUN"}


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
