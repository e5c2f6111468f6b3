"""The page of results: rows that belong together stand together."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import pathlib
from typing import Any

import pytest

from tests.bench import harness, sizes, step_time, table

H200 = "NVIDIA H200"


def record(folder: pathlib.Path, device: str, figures: list[harness.Figure], benchmark: str = "made_up") -> None:
    about = {"benchmark": benchmark, "commit": "HEAD", "date": "today", "machine": "CPU, 2 cores", "torch": "2"}
    data = {**about, "device": device, "figures": [dataclasses.asdict(figure) for figure in figures]}
    (folder / harness.record_name(benchmark, device)).write_text(json.dumps(data))


def rows(folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """(text, device) of each row of the page."""
    monkeypatch.setattr(table, "RESULTS", folder)
    cells = [line.strip("| ").split(" | ") for line in table.write().splitlines() if line.startswith("| ")]
    heads = [i for i, row in enumerate(cells) if row[0] in ("figure", "tried")]
    return [(row[0], row[5].strip("*")) for row in cells[heads[0] + 1 : heads[1]]]


def figure(name: str) -> harness.Figure:
    return harness.figure(name, name, [1.0] * 5, 1.0, "baseline")


def test_the_emulated_and_the_real_figure_stand_side_by_side(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ["evicted", "restore_rate_1_gib", "restore_rate_4_gib", "restore_rate_16_gib", "share"]
    for device in (harness.EMULATED, H200):
        record(tmp_path, device, [figure(name) for name in reversed(names)])
    both = [(name, device) for name in names for device in (H200, harness.EMULATED)]
    assert rows(tmp_path, monkeypatch) == both


def test_step_times_stand_side_by_side_though_their_names_differ(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a GPU a full GPT is measured, on the emulated one a small one in each of its modes."""

    class Worker(contextlib.nullcontext[Any]):
        def __init__(self, *_: Any) -> None:
            super().__init__(self)

        def ask(self, **_: Any) -> None: ...

    made: dict[str, list[harness.Figure]] = {}
    block = {"wall": 1.0, "cpu": 1.0}
    monkeypatch.setattr(harness, "PLACE", harness.Place())
    monkeypatch.setattr(harness, "Worker", Worker)
    monkeypatch.setattr(sizes, "free", lambda *_: 76 * sizes.GIB)
    monkeypatch.setattr(step_time, "fours", lambda *_: [[block] * 4] * 10)
    for device in (harness.EMULATED, H200):
        harness.PLACE.emulated = device == harness.EMULATED
        monkeypatch.setattr(harness, "record", lambda _, figures, device=device: made.update({device: figures}))
        step_time.run(quick=True)
        record(tmp_path, device, made[device], "step_time")
        record(tmp_path, device, [figure("spill_rate_1_gib"), figure("two_jobs")])
    order = rows(tmp_path, monkeypatch)
    beside = {figure.text: figure.name for figure in made[H200]}
    for text, name in beside.items():
        measured = name.removesuffix("gpu")
        (at,) = [i for i, row in enumerate(order) if row == (text, H200)]
        emulated = {figure.text for figure in made[harness.EMULATED] if figure.name.startswith(measured)}
        assert {row[0] for row in order[at + 1 : at + 1 + len(emulated)]} == emulated
    assert len(order) == 2 + 4 + 4
