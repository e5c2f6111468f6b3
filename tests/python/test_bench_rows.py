"""Rows that a benchmark owes the page: what is compared with what, also where it cannot be measured."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
from typing import Any

import pytest

from tests.bench import device_idle, harness, makespan, makespan_resnet, production, sizes


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> dict[str, Any]:
    """What is recorded: ``figures`` by name, and what else the record has."""
    found: dict[str, Any] = {}

    def record(name: str, figures: list[harness.Figure], device: str = "", extra: dict[str, Any] | None = None) -> None:
        found.update(extra or {}, figures={figure.name: figure for figure in figures})

    monkeypatch.setattr(harness, "PLACE", harness.Place(results=tmp_path))
    monkeypatch.setattr(harness, "record", record)
    return found


def test_time_slicing_has_a_row_for_each_of_the_two_jobs(
    recorded: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    measured = {"slowed": [0.01] * 5, "harvest": [0.95] * 5, "sliced_slowed": [0.4] * 5}

    def measure(pair: tuple[float, float, float], *_: Any) -> dict[str, list[float]]:
        return {**measured, "sliced_harvest": [pair[0]] * 5}

    monkeypatch.setattr(production, "_measure", measure)
    production.run(quick=False)
    figures = recorded["figures"]
    assert list(figures) == [
        "production_slowed", "production_harvest", "production_sliced_slowed", "production_sliced_harvest",
    ]  # fmt: skip
    assert figures["production_sliced_slowed"].value == 0.4
    assert figures["production_sliced_harvest"].value == 10.0, "the least of the pairs"


def test_why_there_is_no_hand_over_with_events_is_a_decision_that_can_be_read() -> None:
    said = device_idle.EVENTS
    assert "50 us" in said["text"] and list((harness.ROOT / "docs" / "decisions").glob("0046-*.md"))
    assert said["why"].endswith("(docs/decisions/0046)")


def test_what_a_job_ended_with_is_told_in_its_first_sentences() -> None:
    out_of_memory = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.19 GiB. 2.06 GiB is free"
    log = f"Traceback:\n{out_of_memory}. Process 12 has 3 GiB. See the manual.\nand a warning at the end\n"
    assert makespan.first_words(log) == out_of_memory
    assert makespan.first_words("benchmark worker ended with status -9:\n") == "benchmark worker ended with status -9:"


def test_jobs_that_do_not_fit_have_the_length_of_their_round_trip_and_what_happens_without_hocket(
    recorded: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = {"hocket": [0.55] * 9, "sliced": []}, {"waits": 1}
    sliced = {"hocket": [0.54] * 9, "sliced": [0.72] * 9}, {"waits": 1}
    large = makespan.TooLarge(found, [320 << 20] * 9, [0.12] * 9)
    monkeypatch.setattr(sizes, "free", lambda *_: 76 * sizes.GIB)
    monkeypatch.setattr(makespan_resnet, "measure", lambda *_: (sliced, {"step_ms": 60.0}))
    monkeypatch.setattr(makespan, "_fit", lambda *_: sliced)
    monkeypatch.setattr(makespan, "_too_large", lambda *_: large)
    monkeypatch.setattr(makespan, "_plain_too_large", lambda *_: "the second job ends: OutOfMemoryError")
    monkeypatch.setattr(makespan, "_three", lambda *_: found)
    makespan.run(quick=False)
    figures = recorded["figures"]
    assert {name: figure.goal for name, figure in figures.items()} == {
        "makespan_fit": 0.60, "makespan_fit_sliced": 1.0, "makespan_too_large": 0.70,
        "makespan_too_large_round_trip": 0.25, "makespan_resnet": 0.60, "makespan_resnet_sliced": 1.0,
        "makespan_three": 0.60,
    }  # fmt: skip
    assert recorded["overlap"] == large.overlap
    (missing,) = recorded["not_measured"]
    assert missing["name"] == "makespan_too_large_sliced" and "OutOfMemoryError" in missing["why"]


def test_on_a_card_that_is_too_small_for_full_trainings_their_row_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sizes, "free", lambda *_: 24 * sizes.GIB)
    assert makespan_resnet.too_little().endswith("24.0 GiB of the device are free")
    monkeypatch.setattr(sizes, "free", lambda *_: 76 * sizes.GIB)
    assert makespan_resnet.too_little() == ""


def test_the_ballast_says_how_long_plain_copies_take_each_way() -> None:
    command = [harness.hocket(), "emulate", "--name", f"rows-{os.getpid()}", "--memory", "64MiB", "--timing", "--"]
    program = [sys.executable, "-m", "tests.bench.ballast"]
    asked = '{"leave": 16777216}\n{"copy": 33554432}\n'
    said = subprocess.run([*command, *program], input=asked, capture_output=True, text=True, check=True)
    left, copied = map(json.loads, said.stdout.splitlines())
    assert left["free"] == 16 << 20
    assert set(copied) == {"out", "back"} and all(0 < seconds < 10 for seconds in copied.values())
