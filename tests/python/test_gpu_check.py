"""scripts/gpu-check: what it leaves behind, whatever its parts do."""

from __future__ import annotations

import hashlib
import json
import pathlib

import pytest

from tests.gpu.check import histories, machine, page


@pytest.fixture
def work(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    """What build/gpu-check is to the check: an empty folder."""
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.setattr(machine, "FILE", folder / "machine.json")
    monkeypatch.setattr(histories, "FILE", folder / "histories.tar.gz")
    monkeypatch.setattr(page, "RECORD", folder / "tests.jsonl")
    monkeypatch.setattr(page, "RESULTS", folder / "results")
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
