"""Rows that a benchmark owes the page: what is compared with what, also where it cannot be measured."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest

from tests.bench import device_idle, harness, production


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
