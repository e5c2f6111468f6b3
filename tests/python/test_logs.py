"""``hocket logs``: sentences for people, data for programs, whatever is in the file."""

from __future__ import annotations

import json
import pathlib
import types

import pytest
from click.testing import CliRunner
from hocket.cli import logs

JOINED = (
    '{"time":"2026-11-24T08:05:01.123Z","level":"info","event":"joined","job":3,"pid":41,"name":"resnet",'
    '"device":"GPU-1","text":"resnet (job 3, pid 41, Hocket 0.1.0) joined on GPU-1"}'
)


@pytest.fixture
def log(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    monkeypatch.setattr(logs, "control", lambda: types.SimpleNamespace(runtime_dir=lambda: str(tmp_path)))
    return tmp_path / "hocketd.log"


def said(*arguments: str) -> list[str]:
    result = CliRunner().invoke(logs.command, arguments)
    assert result.exit_code == 0, result.output
    return result.output.splitlines()


def test_a_line_is_read_as_a_sentence_with_its_time_and_level(log: pathlib.Path) -> None:
    log.write_text(JOINED + "\n")
    (line,) = said()
    assert line.endswith(" info: resnet (job 3, pid 41, Hocket 0.1.0) joined on GPU-1")
    assert line.startswith("2026-11-2")


def test_programs_get_what_it_is_about(log: pathlib.Path) -> None:
    log.write_text(JOINED + "\n")
    (line,) = said("--json")
    assert json.loads(line) == json.loads(JOINED)


def test_one_jobs_lines_by_name_or_number(log: pathlib.Path) -> None:
    log.write_text(JOINED + "\n" + JOINED.replace("resnet", "bert").replace('"job":3', '"job":4') + "\n")
    for name in ("bert", "4"):
        (line,) = said("--job", name)
        assert "bert" in line
    assert said("--job", "nobody") == []


def test_the_last_lines_are_shown(log: pathlib.Path) -> None:
    log.write_text("".join(JOINED.replace("41", str(number)) + "\n" for number in range(100)))
    assert [json.loads(line)["pid"] for line in said("-n", "2", "--json")] == [98, 99]


@pytest.mark.parametrize(
    "line", ["2026-01-01 00:00:00.000 info: as an older one wrote it", "{", "[]", "17", '{"text":1}']
)
def test_a_line_that_is_none_of_ours_is_shown_as_it_is(log: pathlib.Path, line: str) -> None:
    log.write_text(line + "\n")
    assert said() == [line]
    assert json.loads(said("--json")[0]) == {"text": line}


def test_another_processs_name_does_not_reach_the_terminal_as_control_characters(log: pathlib.Path) -> None:
    log.write_bytes(b'{"text":"a\\u001b[31mb\\nc"}\n\xff\xfe\n')
    first, second = said()
    assert "\x1b" not in first and first == "a [31mb c"
    assert second == "\N{REPLACEMENT CHARACTER}" * 2


def test_what_was_said_before_the_log_was_begun_anew_is_shown_too(log: pathlib.Path) -> None:
    log.with_name("hocketd.1.log").write_text('{"text":"one"}\n{"text":"two"}\n')
    log.write_text('{"text":"three"}\n')
    assert said() == ["one", "two", "three"]
    assert said("-n", "2") == ["two", "three"]


def test_a_log_that_is_set_aside_while_it_is_read_is_shown_once(
    log: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log.write_text('{"text":"one"}\n')

    def opened(path: pathlib.Path, real=logs._open):
        file = real(path)
        if path == log:
            log.rename(log.with_name("hocketd.1.log"))
            log.write_text('{"text":"two"}\n')
        return file

    monkeypatch.setattr(logs, "_open", opened)
    assert said() == ["one"]
