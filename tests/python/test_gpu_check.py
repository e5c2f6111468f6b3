"""scripts/gpu-check: what it leaves behind, whatever its parts do."""

from __future__ import annotations

import hashlib
import json
import pathlib

import pytest

from tests.gpu.check import histories, machine, page, progress
from tests.gpu.check.parts import BUILDING, FIRST_CALL, LONG, MINUTES, Part, parts
from tests.gpu.check.runner import RESERVE, Lines


@pytest.fixture
def work(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    """What build/gpu-check is to the check: an empty folder."""
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.setattr(machine, "FILE", folder / "machine.json")
    monkeypatch.setattr(histories, "FILE", folder / "histories.tar.gz")
    monkeypatch.setattr(page, "RECORDS", (folder / "tests.jsonl",))
    monkeypatch.setattr(page, "RESULTS", folder / "results")
    monkeypatch.setattr(progress, "FILE", folder / "progress.json")
    return folder


@pytest.fixture
def out(tmp_path: pathlib.Path) -> pathlib.Path:
    folder = tmp_path / "out"
    folder.mkdir()
    return folder


def record(out: pathlib.Path) -> dict:
    return json.loads((out / "record.json").read_text())


def test_what_an_earlier_run_left_in_the_output_folder_goes_and_what_is_the_users_stays(
    work: pathlib.Path, out: pathlib.Path
) -> None:
    for name in ("report.md", "record.json", "log.txt", "histories.tar.gz", "notes.md"):
        (out / name).write_text("of another day")
    page.clear(out)
    page.write(out, work / "log.txt", [], {})
    assert {file.name for file in out.iterdir()} == {"report.md", "record.json", "log.txt", "notes.md"}
    assert (out / "notes.md").read_text() == "of another day"
    assert record(out)["histories"] == {}


def test_the_record_names_the_histories_that_belong_to_it(work: pathlib.Path, out: pathlib.Path) -> None:
    histories.FILE.write_bytes(b"some")
    page.write(out, work / "log.txt", [], {})
    assert (out / "histories.tar.gz").read_bytes() == b"some"
    named = {"file": "histories.tar.gz", "bytes": 4, "sha256": hashlib.sha256(b"some").hexdigest()}
    assert record(out)["histories"] == named


def test_what_hangs_takes_no_time_from_what_is_worth_most() -> None:
    every = [part for part in parts(emulate=False, quick=False) if part.name != "build"]
    first = [part.name for part in every].index(FIRST_CALL) + 1
    call = 60 * MINUTES - RESERVE
    assert sum(part.most for part in every[:first]) <= call - BUILDING
    assert sum(part.most for part in every[first : -len(LONG)]) <= call, "a second call does not come to its end"
    assert tuple(part.name for part in every[-len(LONG) :]) == LONG


def outcomes(**of: str) -> Lines:
    return {name: {"name": name, "outcome": outcome} for name, outcome in of.items()}


def named(name: str, **how: bool) -> Part:
    return Part(name, "", (), 1, 10, **how)


def test_a_run_that_goes_on_does_what_was_not_reached_and_then_with_more_time_what_was_stopped() -> None:
    chosen = [named("build", needed=True), *map(named, ("tests", "slow", "figures", "broken", "late"))]
    before = outcomes(build="done", tests="done", slow="stopped", figures="done", broken="failed", late="not reached")
    left = progress.still_to_do(chosen, before, named=False)
    assert [(part.name, part.most) for part in left] == [("build", 10), ("late", 10), ("slow", 20)]
    again = progress.still_to_do(chosen, before, named=True)
    assert [part.name for part in again] == ["build", "broken", "late", "slow"]
    assert progress.still_to_do(chosen, {}, named=False) == chosen


def test_nobody_goes_on_from_a_run_of_something_else(work: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress.source, "commit", lambda: "abc1234")
    monkeypatch.setattr(progress.source, "fingerprint", lambda: "f00d")
    lines, about = outcomes(tests="done"), {"date": "then"}
    assert progress.load(progress.of(False)) == ({}, {})
    progress.save(progress.of(False), about, lines)
    assert progress.load(progress.of(False)) == (about, lines)
    assert progress.load(progress.of(True)) == ({}, {})
    monkeypatch.setattr(progress.source, "commit", lambda: "def5678")
    assert progress.load(progress.of(False)) == ({}, {})
