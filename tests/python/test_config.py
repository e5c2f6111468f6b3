"""The config file: what is read of it, what wins over it, and that a wrong one starts nothing."""

from __future__ import annotations

import json
import os
import pathlib
import re
import shutil
import subprocess
import tomllib

import pytest
from click.testing import CliRunner
from hocket import _config, _job
from hocket.cli import main
from hocket.errors import BrokenConfig
from test_cli import SHOW, hocket

ROOT = pathlib.Path(__file__).parents[2]
GOOD = """\
[coordinator]
policy = "srtf"       # for many jobs
switch_share = 0.05
grace_seconds = 5

[job]
weight = 2
memory_limit = "20GiB"
group = "vision"

[web]
port = 1234
any_user = true
"""


@pytest.fixture
def file(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    """The user's config file, not yet written; nothing else is read."""
    monkeypatch.setenv("HOCKET_CONFIG", str(tmp_path / "config.toml"))
    for key in _config.KEYS:
        monkeypatch.delenv(key.variable, raising=False)
    return tmp_path / "config.toml"


def test_each_key_becomes_its_variable(file: pathlib.Path) -> None:
    file.write_text(GOOD)
    environment: dict[str, str] = {}
    _config.apply(environment)
    assert environment == {
        "HOCKET_POLICY": "srtf", "HOCKET_SWITCH_SHARE": "0.05", "HOCKET_GRACE_SECONDS": "5", "HOCKET_WEIGHT": "2",
        "HOCKET_GROUP": "vision",
        "HOCKET_MEMORY_LIMIT": str(20 << 30), "HOCKET_WEB_PORT": "1234", "HOCKET_WEB_ANY_USER": "1"}  # fmt: skip


def test_the_environment_wins_over_the_file(file: pathlib.Path) -> None:
    file.write_text(GOOD)
    environment = {"HOCKET_POLICY": "fifo", "HOCKET_WEIGHT": ""}
    _config.apply(environment)
    assert (environment["HOCKET_POLICY"], environment["HOCKET_WEIGHT"]) == ("fifo", "2")


def test_a_relative_runtime_folder_is_the_same_for_what_is_started_elsewhere(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    environment = {"HOCKET_RUNTIME_DIR": "run"}
    _config.apply(environment)
    monkeypatch.chdir("/")
    _config.apply(environment)
    assert environment["HOCKET_RUNTIME_DIR"] == str(tmp_path / "run")


def test_the_users_file_wins_over_the_machines(tmp_path: pathlib.Path) -> None:
    machine, user = tmp_path / "machine.toml", tmp_path / "user.toml"
    machine.write_text('coordinator = {policy = "fifo", grace_seconds = 1}\n')
    user.write_text('[coordinator]\npolicy = "fair"\n')
    settings, mistakes = _config.read([machine, user])
    assert mistakes == []
    found = {str(key): (setting.value, setting.path) for key, setting in settings.items()}
    assert found == {"coordinator.policy": ("fair", user), "coordinator.grace_seconds": (1, machine)}


def test_it_is_looked_for_where_the_user_keeps_such_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HOCKET_CONFIG")
    monkeypatch.setenv("XDG_CONFIG_HOME", "/x")
    assert _config.files() == [pathlib.Path("/etc/hocket/config.toml"), pathlib.Path("/x/hocket/config.toml")]
    monkeypatch.delenv("XDG_CONFIG_HOME")
    monkeypatch.setenv("HOME", "/home/me")
    assert _config.files()[-1] == pathlib.Path("/home/me/.config/hocket/config.toml")


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("\n[coordinator]\npolcy = 'fair'\n", 3, "did you mean coordinator.policy?"),
        ("[coordinator]\npolicy = 'fare'\n", 2, "one of fair, fifo, pack, priority, round-robin, srtf"),
        ("[coordinator]\npolicy = 3\n", 2, "one of fair"),
        ("[coordinator]\nswitch_share = 2\n", 2, "a number above 0, 1 at most"),
        ("[coordinator]\nswitch_share = '0.1'\n", 2, "a number above 0"),
        ("[coordinator]\nlink_bound = 0\n", 2, "a number from 0.001 to 1"),
        ("[coordinator]\nswitch_share = nan\n", 2, "a number above 0"),
        ("[coordinator]\ngrace_seconds = -1\n", 2, "0 or more"),
        ("[coordinator]\nlog_level = 'loud'\n", 2, "one of debug"),
        ("[job]\n\nweight = 0\n", 3, "a number above 0"),
        ("[job]\nweight = true\n", 2, "a number above 0"),
        ("[job]\nweight = [1]\n", 2, "a number above 0"),
        ("[job]\npriority = ['high']\n", 2, "one of high, normal, low"),
        ("[job]\ngroup = 'two words'\n", 2, "letters, digits, '.', '_' and '-'"),
        ("[job]\nmemory_limit = 'much'\n", 2, '"20GiB"'),
        ("[job]\nmemory_limit = -1\n", 2, "more than 0"),
        ("[web]\nport = 70000\n", 2, "from 1 to 65535"),
        ("[web]\nany_user = 'yes'\n", 2, "true or false"),
        ("[web]\n'port' = 0\n", 2, "from 1 to 65535"),
        ("web.port = 0\n", 1, "from 1 to 65535"),
        ("[webb]\nport = 1\n", 1, "did you mean web?"),
        ("# first\npolicy = 'fair'\n", 2, "write it under [coordinator]"),
        ("web = 3\n", 1, "web is a section"),
        ("[[web]]\nport = 1\n", 1, "web is a section"),
        ("[web]\nport = \n", 2, "no TOML"),
        ("[web]\nport = 1\nport = 2\n", 3, "no TOML"),
        ("[web\n", 1, "no TOML"),
    ],
)
def test_a_mistake_is_named_with_its_line_and_what_would_be_right(
    file: pathlib.Path, text: str, line: int, said: str
) -> None:
    file.write_text(text)
    answer = hocket("config", "check", HOCKET_CONFIG=str(file))
    assert answer.returncode == 1
    assert answer.stderr.startswith(f"{file}:{line}: "), answer.stderr
    assert said in answer.stderr
    assert len(answer.stderr.splitlines()) == 1


def test_a_mark_of_the_encoding_at_its_begin_is_no_mistake(file: pathlib.Path) -> None:
    file.write_bytes(b"\xef\xbb\xbf[job]\nweight = 2\n[web]\nport = 0\n")
    settings, mistakes = _config.read()
    assert [(str(key), setting.value, setting.line) for key, setting in settings.items()] == [("job.weight", 2, 2)]
    assert [mistake.line for mistake in mistakes] == [4]


def test_all_mistakes_are_named_at_once(file: pathlib.Path) -> None:
    file.write_text("[job]\nweight = 0\nname = 'x'\n[web]\nport = 0\n")
    assert [mistake.line for mistake in _config.read()[1]] == [2, 3, 5]


@pytest.mark.parametrize("spoil", ["bytes", "folder", "missing"])
def test_a_file_that_cannot_be_read_is_named(file: pathlib.Path, spoil: str) -> None:
    if spoil == "bytes":
        file.write_bytes(b"[web]\nport = 1 # \xff\n")
    elif spoil == "folder":
        file.mkdir()
    (mistake,) = _config.read()[1]
    assert mistake.path == file
    assert mistake.line == (2 if spoil == "bytes" else 0)


def test_without_a_file_nothing_is_wrong_and_it_is_said_how_to_write_one(tmp_path: pathlib.Path) -> None:
    answer = hocket("config", "check", XDG_CONFIG_HOME=str(tmp_path), HOCKET_CONFIG="")
    assert answer.returncode == 0, answer.stderr
    if not pathlib.Path("/etc/hocket/config.toml").exists():
        assert "no config file" in answer.stdout
        example = answer.stdout.split("\n", 1)[1]
        (tmp_path / "example.toml").write_text(example)
        assert _config.read([tmp_path / "example.toml"])[1] == []
        assert tomllib.loads(example)


@pytest.mark.parametrize("home", ["none", "below a file"])
def test_who_has_no_home_has_no_file(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, home: str) -> None:
    monkeypatch.delenv("HOCKET_CONFIG", raising=False)
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    if home == "none":
        monkeypatch.setattr(pathlib.Path, "home", lambda: (_ for _ in ()).throw(RuntimeError("no home")))
        assert len(_config.files()) == 1
    else:
        monkeypatch.setenv("HOME", os.devnull)
        assert _config.read(_config.files()[1:]) == ({}, [])


@pytest.mark.parametrize(
    ("command", "variable"),
    [
        (["web", "--port", "0"], "XDG_CONFIG_HOME"),
        (["systemd", "--install"], "XDG_CONFIG_HOME"),
        (["policy", "./mine.cc"], "XDG_CACHE_HOME"),
    ],
)
def test_who_has_no_home_is_told_what_to_set(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, command: list[str], variable: str
) -> None:
    (tmp_path / "mine.cc").write_text("int main() {}")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr(pathlib.Path, "home", lambda: (_ for _ in ()).throw(RuntimeError("no home")))
    answer = CliRunner().invoke(main, command)
    assert answer.exit_code == 1
    assert "has no home folder" in answer.output and f"Set {variable}, or HOME" in answer.output, answer


@pytest.mark.parametrize(
    "text", ["[job]\nweight = 1" + "0" * 400, "[job]\nweight = " + "1" * 5000, "x = " + "[" * 5000]
)
def test_a_file_that_no_reader_can_take_is_named(file: pathlib.Path, text: str) -> None:
    file.write_text(text)
    (mistake,) = _config.read()[1]
    assert mistake.path == file
    assert not mistake.unknown


@pytest.mark.parametrize("value", ["0x{}", "[0x{}]", "{{x = 0x{}}}"])
@pytest.mark.parametrize("key", ["job.weight", "web.port", "coordinator.policy", "job.memory_limit", "web.any_user"])
def test_a_number_of_thousands_of_digits_is_a_mistake_like_any_other(file: pathlib.Path, key: str, value: str) -> None:
    """Hexadecimal digits are read whatever their number; as decimal ones Python writes no more than 4,300."""
    section, name = key.split(".")
    file.write_text(f"[{section}]\n{name} = {value.format('f' * 5000)}\n")
    (mistake,) = _config.read()[1]
    assert mistake.line == 2 and f"{key} is " in mistake.what and "thousands of digits" in mistake.what
    assert len(str(mistake)) < 500


def test_a_long_line_is_read_in_time_that_grows_with_its_length(file: pathlib.Path) -> None:
    """It took hours: the time grew with the third power of it."""
    file.write_text(f"{' ' * 100_000}\n[{' ' * 100_000}job]\n{'x' * 100_000} = 1\n")
    (mistake,) = _config.read()[1]
    assert mistake.line == 3 and "there is no job.xxx" in mistake.what and "100,004 characters" in mistake.what


def test_lines_are_those_of_an_editor(file: pathlib.Path) -> None:
    file.write_text("# a form feed in a text ends no line\n[job]\ngroup = 'a\u2028b\x85c'\nweight = 0\n[web\n")
    assert [mistake.line for mistake in _config.read()[1]] == [5]
    file.write_text("[job]\ngroup = 'a\u2028b\x85c'\nweight = 0\n")
    assert [mistake.line for mistake in _config.read()[1]] == [2, 3]


@pytest.mark.parametrize(
    ("section", "line"),
    [
        ("coordinator", "history_size = 9223372036854775808"),
        ("coordinator", "history_days = 10001"),
        ("coordinator", "policy_patience_seconds = 0"),
        ("job", "host_budget = 9223372036854775808"),
        ("job", "memory_limit = '8388608TiB'"),
    ],
)
def test_what_the_coordinator_or_a_job_would_refuse_is_a_mistake_already(
    file: pathlib.Path, section: str, line: str
) -> None:
    file.write_text(f"[{section}]\n{line}\n")
    (mistake,) = _config.read()[1]
    assert mistake.line == 2 and "it must be" in mistake.what


def test_a_key_of_a_newer_hocket_is_said_and_stops_nothing(
    file: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file.write_text("[job]\nweight = 2\ncolour = 'red'\n[weather]\nrain = true\n")
    assert {str(key) for key in _config.settings()} == {"job.weight"}
    said = capsys.readouterr().err
    assert f"{file}:3: there is no job.colour" in said and f"{file}:4: there is no weather" in said
    assert hocket("config", "check", HOCKET_CONFIG=str(file)).returncode == 1


@pytest.mark.parametrize(
    "command",
    [("run", "--", "touch", "{mark}"), ("serve",), ("web", "--port", "0"), ("config", "show"), ("systemd",)],
)
def test_a_wrong_file_starts_nothing(file: pathlib.Path, tmp_path: pathlib.Path, command: tuple[str, ...]) -> None:
    file.write_text("[job]\nweight = 0\n")
    mark = tmp_path / "started"
    daemon = tmp_path / "hocketd"
    daemon.write_text(f"#!/bin/sh\ntouch {mark}\n")
    daemon.chmod(0o755)
    named = [word.format(mark=mark) for word in command]
    answer = hocket(*named, HOCKET_CONFIG=str(file), HOCKET_DAEMON=str(daemon), XDG_CONFIG_HOME=str(tmp_path))
    assert answer.returncode == 1
    assert f"{file}:2: job.weight is 0" in answer.stderr
    assert not mark.exists()
    assert list(tmp_path.glob("hocket/*")) == []


def test_import_hocket_names_a_wrong_file_and_prepares_nothing(
    file: pathlib.Path, native, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_job, "_activated", False)
    file.write_text("[job]\nweight = 0\n")
    with pytest.raises(BrokenConfig, match="weight is 0"):
        _job.activate()
    assert native.story == [] and native.options == {}


def test_a_job_has_what_the_file_says(file: pathlib.Path, native, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_job, "_activated", False)
    for key in _config.KEYS:
        monkeypatch.setenv(key.variable, "")  # so that it is as before when the test is over
    file.write_text('[job]\nweight = 2.5\npriority = "low"\nmemory_limit = "2GiB"\n')
    _job.activate()
    assert (native.options["weight"], native.options["priority"], native.options["memory_limit"]) == (
        2.5,
        "low",
        2 << 30,
    )


def test_run_and_serve_hand_on_what_the_file_says_unless_told_otherwise(
    file: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    file.write_text(GOOD)
    variables = json.loads(hocket("run", "--weight", "3", "--", *SHOW, HOCKET_CONFIG=str(file)).stdout)
    assert (variables["HOCKET_POLICY"], variables["HOCKET_WEIGHT"]) == ("srtf", "3.0")
    daemon = tmp_path / "hocketd"
    daemon.write_text('#!/bin/sh\necho "$HOCKET_POLICY $HOCKET_GRACE_SECONDS $@"\n')
    daemon.chmod(0o755)
    served = hocket("serve", "--policy=fifo", HOCKET_CONFIG=str(file), HOCKET_DAEMON=str(daemon))
    assert served.stdout == "srtf 5 --foreground --policy=fifo\n"


def test_show_says_what_holds_and_from_where(file: pathlib.Path) -> None:
    file.write_text(GOOD)
    answer = hocket("config", "show", "--json", HOCKET_CONFIG=str(file), HOCKET_POLICY="fifo")
    shown = {each["key"]: (each["value"], each["source"]) for each in json.loads(answer.stdout)}
    assert shown["coordinator.policy"] == ("fifo", "$HOCKET_POLICY")
    assert shown["job.memory_limit"] == ("20GiB", f"{file}:8")
    assert shown["job.priority"] == ("normal", "default")
    assert list(shown) == [str(key) for key in _config.KEYS]


def test_show_says_what_each_key_means_and_what_the_coordinator_has_now(
    file: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    assert all(key.what for key in _config.KEYS)
    now = {"policy": "pack", "switch_share": 0.05, "link_bound": 1.0, "overdue": "go-on"}
    answers = tmp_path / "answers"
    answers.write_text(json.dumps({"policy": now}))
    file.write_text(GOOD)
    lines = hocket("config", "show", HOCKET_CONFIG=str(file), FAKE_ANSWERS=str(answers)).stdout.splitlines()
    for key in _config.KEYS:
        line = next(i for i, line in enumerate(lines) if line.startswith(f"{key} "))
        assert lines[line + 1].strip() == key.what
    assert lines[-1] == "The coordinator that runs has policy pack, switch share 0.05, link bound 1, overdue go-on."


def test_the_policies_are_the_coordinators() -> None:
    registry = (ROOT / "coordinator/policies/registry.cc").read_text()
    assert tuple(re.findall(r'^ +\{"([a-z-]+)", "', registry, re.MULTILINE)) == _config.POLICIES


def test_the_coordinator_reads_the_variables_and_the_guide_lists_the_keys() -> None:
    flags = (ROOT / "coordinator/flags.cc").read_text()
    guide = (ROOT / "docs/user-guide.md").read_text()
    for key in _config.KEYS:
        assert key.section != "coordinator" or f'"{key.variable}"' in flags
        assert f"`{key.name}`" in guide and f"`{key.variable}`" in guide, key


# --- systemd --------------------------------------------------------------------------------------------


def test_units_start_commands_that_exist_and_parse(tmp_path: pathlib.Path) -> None:
    answer = hocket("systemd", "--install", "--user", XDG_CONFIG_HOME=str(tmp_path), HOCKET_CONFIG=os.devnull)
    assert answer.returncode == 0, answer.stderr
    folder = tmp_path / "systemd" / "user"
    assert sorted(path.name for path in folder.iterdir()) == ["hocket-web.service", "hocket.service"]
    assert "systemctl --user enable --now hocket.service hocket-web.service" in answer.stdout
    for path, command in ((folder / "hocket.service", "serve"), (folder / "hocket-web.service", "web")):
        (line,) = re.findall(r"^ExecStart=(.*)$", path.read_text(), re.MULTILINE)
        program, word = line.split()
        assert os.access(program, os.X_OK), program
        assert word == command
        assert hocket(word, "--help").returncode == 0
        assert f"Environment=XDG_CONFIG_HOME={tmp_path}" in path.read_text()


def test_the_systems_unit_starts_a_coordinator_for_all_and_takes_no_place_from_ones_own_environment(
    tmp_path: pathlib.Path,
) -> None:
    answer = hocket("systemd", "--system", "--install", "--root", str(tmp_path), HOCKET_RUNTIME_DIR="/tmp/mine")
    assert answer.returncode == 0, answer.stderr
    folder = tmp_path / "etc" / "systemd" / "system"
    assert [path.name for path in folder.iterdir()] == ["hocket.service"]
    unit = (folder / "hocket.service").read_text()
    assert re.search(r"^ExecStart=/.*hocket serve --system$", unit, re.MULTILINE), unit
    assert "/tmp/mine" not in unit
    kept = {"RuntimeDirectory=hocket", "RuntimeDirectoryPreserve=restart", "StateDirectory=hocket"}
    assert kept <= set(unit.splitlines())
    assert "systemctl enable --now hocket.service" in answer.stdout
    if shutil.which("systemd-analyze"):
        said = subprocess.run(
            ["systemd-analyze", "verify", str(folder / "hocket.service")], capture_output=True, text=True, timeout=300
        )
        assert not [line for line in said.stderr.splitlines() if "hocket" in line], said.stderr


def test_units_are_a_users_or_the_systems(tmp_path: pathlib.Path) -> None:
    answer = hocket("systemd", "--system", "--user")
    assert answer.returncode == 2
    assert "give one of --user and --system" in answer.stderr


def test_systemd_itself_finds_nothing_wrong_with_them(tmp_path: pathlib.Path) -> None:
    """Where systemd is installed; the test above looks at the rest."""
    hocket("systemd", "--install", XDG_CONFIG_HOME=str(tmp_path), HOCKET_RUNTIME_DIR='/tmp/with a %h $HOME "and" \\')
    for path in sorted((tmp_path / "systemd" / "user").iterdir()):
        try:
            said = subprocess.run(["systemd-analyze", "--user", "verify", str(path)], capture_output=True, text=True,
                                  env={**os.environ, "XDG_RUNTIME_DIR": str(tmp_path)})  # fmt: skip
        except FileNotFoundError:
            return
        assert path.name not in said.stderr, said.stderr


def test_units_are_printed_unless_they_are_to_be_installed(tmp_path: pathlib.Path) -> None:
    (tmp_path / "config.toml").write_text("[web]\nport = 1234\n")
    answer = hocket("systemd", XDG_CONFIG_HOME=str(tmp_path), HOCKET_CONFIG=str(tmp_path / "config.toml"))
    assert "http://127.0.0.1:1234/" in answer.stdout
    assert not (tmp_path / "systemd").exists()


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("/a/b", "/a/b"),
        ("/a b", '"/a b"'),
        ("/100%", "/100%%"),
        ('/"', '"/\\""'),
        ("/\\ ", '"/\\\\ "'),
    ],
)
def test_a_path_is_one_word_for_systemd(text: str, word: str) -> None:
    from hocket.cli import systemd

    assert systemd._word(text) == word
