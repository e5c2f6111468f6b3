"""Histories of allocations that a GPU has recorded serve in place of the emulated one's, and the page says which."""

from __future__ import annotations

import gzip
import io
import pathlib
import subprocess
import tarfile
from typing import Any

import pytest

from tests.bench import allocation, harness, histories

ON_GPU, EMULATED = gzip.compress(b"0 512 0\n"), gzip.compress(b"0 1024 0\n")


def archive(results: pathlib.Path, device: str, *names: str) -> None:
    with tarfile.open(results / f"histories-{device}.tar.gz", "w:gz") as tar:
        for name in names:
            member = tarfile.TarInfo(name)
            member.size = len(ON_GPU)
            tar.addfile(member, io.BytesIO(ON_GPU))


@pytest.fixture
def results(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    """An empty folder of results; what is recorded on the emulated GPU is made up."""

    def recorded(command: list[str], **_: Any) -> None:
        pathlib.Path(command[-1]).write_bytes(EMULATED)

    monkeypatch.setattr(harness, "RESULTS", tmp_path / "results")
    monkeypatch.setattr(harness, "PLACE", harness.Place(results=tmp_path / "made"))
    monkeypatch.setattr(subprocess, "run", recorded)
    harness.RESULTS.mkdir()
    return harness.RESULTS


def gathered(folder: pathlib.Path) -> tuple[dict[str, str], dict[str, bytes]]:
    folder.mkdir()
    elsewhere = histories.gather(folder)
    return elsewhere, {path.name.split(".")[0]: path.read_bytes() for path in folder.iterdir()}


def test_a_gpus_histories_serve_and_the_emulated_one_fills_the_gaps(
    results: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    archive(results, "nvidia-h200", "gpt.txt.gz", "resnet.txt.gz")
    elsewhere, found = gathered(tmp_path / "gathered")
    assert elsewhere == {"gpt": "nvidia-h200", "resnet": "nvidia-h200"}
    assert {name for name, what in found.items() if what == ON_GPU} == set(elsewhere)
    assert found["gpt-untidy"] == found["bert"] == EMULATED


def test_of_two_gpus_that_recorded_a_training_one_serves(results: pathlib.Path, tmp_path: pathlib.Path) -> None:
    archive(results, "nvidia-h100", "gpt.txt.gz")
    archive(results, "nvidia-h200", "gpt.txt.gz", "bert.txt.gz")
    elsewhere, _ = gathered(tmp_path / "gathered")
    assert elsewhere == {"gpt": "nvidia-h100", "bert": "nvidia-h200"}


def test_without_a_gpus_all_are_the_emulated_ones(results: pathlib.Path, tmp_path: pathlib.Path) -> None:
    elsewhere, found = gathered(tmp_path / "gathered")
    assert elsewhere == {} and set(found.values()) == {EMULATED} and {"gpt", "bert-untidy", "lora"} < set(found)


def test_what_is_no_history_stays_in_the_archive(results: pathlib.Path, tmp_path: pathlib.Path) -> None:
    archive(results, "nvidia-h200", "../escaped.txt.gz", "readme.md")
    assert histories.unpack(results, tmp_path) == {}
    assert not list(tmp_path.parent.rglob("escaped*"))


def at_hand(*names: str) -> dict[str, str]:
    with histories.at_hand(names) as there:
        return {histories.name_of(path): where for path, where in there.items()}


def test_of_those_at_hand_the_ones_asked_for_are_replayed(
    results: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HOCKET_HISTORIES", raising=False)
    archive(results, "nvidia-h200", "gpt.txt.gz", "resnet.txt.gz")
    assert at_hand("gpt", "bert") == {"bert": harness.EMULATED, "gpt": "nvidia-h200"}
    every = at_hand()
    assert every["resnet"] == "nvidia-h200" and every["lora"] == harness.EMULATED


def test_a_folder_of_others_is_replayed_instead(
    results: pathlib.Path, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOCKET_HISTORIES", str(tmp_path))
    with pytest.raises(RuntimeError, match="has no history"):
        at_hand()
    said = gzip.compress(b'# {"device": "somebody\'s"}\n0 512 0\n')
    (tmp_path / "mine.txt.gz").write_bytes(said)
    (tmp_path / "cnn.txt.gz").write_bytes(ON_GPU)
    assert at_hand("gpt") == {"cnn": histories.ELSEWHERE, "mine": "somebody's"}
    assert at_hand("mine") == {"mine": "somebody's"}


def test_rows_table_and_record_say_which_a_gpu_has_recorded(
    results: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def compare(path: pathlib.Path, recorded_on: str, *_: Any) -> allocation.Compared:
        ratios = {key: [1.0] * 5 for key in allocation.COMPARED}
        return allocation.Compared(path.name.split(".")[0], True, ratios, [1.0] * 5, recorded_on)

    recorded: dict[str, Any] = {}
    monkeypatch.setattr(harness, "binary", lambda name: name)
    monkeypatch.setattr(harness, "record", lambda name, figures, extra: recorded.update(figures=figures, **extra))
    monkeypatch.setattr(allocation, "compare", compare)
    monkeypatch.setattr(allocation, "fits", lambda history: True)
    monkeypatch.setattr(allocation, "threads", lambda *_: [])
    monkeypatch.delenv("HOCKET_HISTORIES", raising=False)
    archive(results, "nvidia-h200", "gpt.txt.gz", "bert.txt.gz")
    allocation.run(quick=False)
    assert "whose steps repeat, 2 of them recorded on nvidia-h200, the worst" in recorded["figures"][0].text
    (table,) = recorded["tables"]
    assert table["columns"][-1] == "recorded on"
    assert {row[0]: row[-1] for row in table["rows"]}["gpt"] == "nvidia-h200"
    assert recorded["histories"]["gpt"]["recorded_on"] == "nvidia-h200"
    assert recorded["histories"]["lora"]["recorded_on"] == harness.EMULATED


def test_traces_that_are_given_come_beside_the_recorded_ones(
    results: pathlib.Path, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    traces = tmp_path / "workloads" / "allocation-traces"
    traces.mkdir(parents=True)
    (traces / "gpt_accum.txt.gz").write_bytes(ON_GPU)
    monkeypatch.setattr(harness.PLACE, "workloads", tmp_path / "workloads")
    elsewhere, found = gathered(tmp_path / "gathered")
    assert elsewhere == {"trace-gpt-accum": "elsewhere"}
    assert found["trace-gpt-accum"] == ON_GPU and found["gpt"] == EMULATED
    brief = tmp_path / "brief"
    brief.mkdir()
    assert histories.gather(brief, ("gpt",)) == {} and [path.name for path in brief.iterdir()] == ["gpt.txt.gz"]
