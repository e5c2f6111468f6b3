"""``hocket restart`` where something stands in its way: a sentence, and it does not wait for ever."""

from __future__ import annotations

import fcntl
import pathlib

import click
import pytest
from click.testing import CliRunner, Result
from hocket.cli import common, restart


@pytest.fixture
def folder(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    """The runtime folder; no coordinator runs."""
    monkeypatch.setenv("HOCKET_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setattr(common, "ask_if_it_runs", lambda _: None)
    return tmp_path


def restarted(folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch, program: str) -> Result:
    """Restarts with a coordinator that is this shell script."""
    daemon = folder / "hocketd"
    daemon.write_text(f"#!/bin/sh\n{program}\n")
    daemon.chmod(0o755)
    monkeypatch.setenv("HOCKET_DAEMON", str(daemon))
    return CliRunner().invoke(restart.command, catch_exceptions=False)


VERSION = '[ "$1" = --version ] && echo hocketd 0.0 && exit 0'


def test_a_coordinator_that_does_not_begin_to_listen_is_said(
    folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(restart, "_version_of", lambda _: "0.0")  # this one has no time to say it
    monkeypatch.setattr(restart, "PATIENCE", 0.1)
    answer = restarted(folder, monkeypatch, "exec sleep 1000")
    assert answer.exit_code == 1
    assert "has not begun to listen in 0.1 s" in answer.output and "No coordinator runs now" in answer.output


def test_a_coordinator_without_a_version_replaces_none(folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = restarted(folder, monkeypatch, f"[ $# = 0 ] && touch {folder}/started; exit 0")
    assert answer.exit_code == 1 and "does not say its version" in answer.output
    assert not (folder / "started").exists()


def test_who_starts_one_is_not_waited_for_without_end(folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with (folder / "start.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        monkeypatch.setattr(restart, "PATIENCE", 0)
        with pytest.raises(click.ClickException, match=r"has held .*start\.lock for 0 s.*Nothing was changed"):
            restart._nobody_else_starts_one().__enter__()
    with restart._nobody_else_starts_one(), (folder / "start.lock").open() as lock, pytest.raises(BlockingIOError):
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_a_lock_that_is_a_link_is_not_followed(folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "start.lock").symlink_to(folder / "elsewhere")
    answer = restarted(folder, monkeypatch, VERSION)
    assert answer.exit_code == 1 and f"cannot open {folder / 'start.lock'}" in answer.output
    assert not (folder / "elsewhere").exists()
