"""On a small card benchmarks choose sizes that fit, say so, and their figures are rows of their own."""

from __future__ import annotations

import pathlib
import subprocess
from collections.abc import Callable
from typing import Any

import pytest

from tests.bench import evicted, exchange, harness, inference, memory_of_jobs, sizes, step_time
from tests.bench.sizes import CONTEXT, GIB, MIB
from tests.gpu.check import build

CARDS = [8, 16, 24]


def recorder(last: list[harness.Figure]) -> Callable[..., None]:
    """In place of ``harness.record``: a record replaces the one before."""

    def record(name: str, figures: list[harness.Figure], **_: object) -> None:
        last[:] = figures

    return record


def test_sizes_that_fit_are_taken_and_the_others_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    wanted = [GIB, 4 * GIB, 16 * GIB]
    assert sizes.fitting("x", wanted, 24 * GIB, lambda size: size) == wanted
    assert capsys.readouterr().out == ""
    assert sizes.fitting("x", wanted, 6 * GIB, lambda size: size) == [GIB, 4 * GIB]
    assert capsys.readouterr().out == "x: 6 GiB of the device are free: 1 GiB, 4 GiB instead of 1 GiB, 4 GiB, 16 GiB\n"


def test_where_none_fits_the_smallest_is_halved_until_it_does() -> None:
    assert sizes.fitting("x", [10 * GIB], 6 * GIB, lambda size: size + GIB) == [5 * GIB]
    assert sizes.fitting("x", [10 * GIB], 5 * GIB, lambda size: size + GIB) == [5 * GIB // 2]


def test_where_nothing_fits_the_benchmark_is_not_run() -> None:
    with pytest.raises(harness.NotRun, match=r"0.5 GiB of the device are free: even 64 MiB do not fit"):
        sizes.fitting("x", [GIB], 512 * MIB, lambda size: size + CONTEXT)


def test_what_the_host_cannot_hold_does_not_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sizes, "host_free", lambda: 8 * GIB)
    assert sizes.fitting("x", [4 * GIB], 80 * GIB, lambda size: size, lambda size: 2 * size) == [2 * GIB]


def test_another_size_is_another_row() -> None:
    assert sizes.name("evicted", 10 * GIB, 10 * GIB) == "evicted"
    assert sizes.name("evicted", 5 * GIB, 10 * GIB) == "evicted_5_gib"
    assert sizes.name("evicted", 1120 * MIB, 10 * GIB) == "evicted_1120_mib"


def test_the_emulated_card_is_as_small_as_the_environment_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HOCKET_EMULATOR_MEMORY", raising=False)
    assert "24GiB" in harness.emulate("x", "24GiB", ["true"])
    monkeypatch.setenv("HOCKET_EMULATOR_MEMORY", "8GiB")
    assert "8GiB" in harness.emulate("x", "24GiB", ["true"])
    assert "1GiB" in harness.emulate("x", "1GiB", ["true"])
    monkeypatch.setattr(build, "libraries", lambda: "")  # of a bundle
    assert build.environment()["HOCKET_EMULATOR_MEMORY"] == "8GiB", "the check's parts hear of it"


@pytest.mark.parametrize("card", CARDS)
def test_trainings_shrink_to_the_card(card: int) -> None:
    free = card * GIB * 19 // 20  # what a driver leaves of it
    batch = step_time.batch_that_fits(free)
    assert batch == {8: 2, 16: 8, 24: 8}[card]
    layers, _ = inference.training_that_fits(free)
    assert layers == {8: 3, 16: 6, 24: 12}[card]
    assert step_time.batch_that_fits(76 * GIB) == 8 and inference.training_that_fits(76 * GIB) == inference.USUAL


def test_a_smaller_training_beside_requests_or_another_trace_is_a_row_of_its_own() -> None:
    block = {"alone": [1.0], "hocket": [1.0], "plain": [1.0], "needed": 0.2}
    block |= {"training_alone": 5.0, "training_hocket": 4.0, "training_plain": 4.0}
    found = {"blocks": [block] * 5, "training_yields": {"longest_ms": 1.0}}
    usual, smaller = (
        [f.name for f in inference.figures_of(found, training=each)] for each in (inference.USUAL, (6, 2))
    )
    assert usual[:2] == ["inference_p99", "inference_training"]
    assert smaller[:2] == ["inference_p99_6_layers", "inference_training_6_layers"]
    drawn = inference.figures_of(found, drawn=True)
    assert [f.name for f in drawn][:2] == ["inference_p99_drawn", "inference_training_drawn"]
    assert all("arrivals drawn" in f.text for f in drawn), "those of no trace are rows of their own, too"
    (both, *_) = inference.figures_of(found, drawn=True, training=(6, 2))
    assert both.name == "inference_p99_drawn_6_layers"


@pytest.mark.parametrize("card", CARDS)
def test_jobs_that_exchange_their_memory_fit_with_their_contexts(monkeypatch: pytest.MonkeyPatch, card: int) -> None:
    monkeypatch.setattr(sizes, "free", lambda *_: card * GIB * 19 // 20)
    measured: list[int] = []

    def hand_overs(size: int, rounds: int, jobs: int = 2) -> list[dict[str, float]]:
        assert (jobs - 1) * size + size // 4 + (jobs + 1) * CONTEXT <= card * GIB
        measured.append(size)
        return [{"plain": 1.0, "took": 1.0}] * rounds

    recorded: list[harness.Figure] = []
    monkeypatch.setattr(exchange, "hand_overs", hand_overs)
    monkeypatch.setattr(harness, "record", recorder(recorded))
    exchange.run(quick=False)
    assert [f.name for f in recorded] == {
        8: ["exchange_0.25", "exchange_1", "exchange_4", "exchange_ahead_2_gib"],
        16: ["exchange_0.25", "exchange_1", "exchange_4", "exchange_ahead"],
        24: ["exchange_0.25", "exchange_1", "exchange_4", "exchange_16", "exchange_ahead"],
    }[card]


def test_an_evicted_job_of_another_size_is_another_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sizes, "free", lambda *_: 8 * GIB)
    each = {"granted": 0.0, "first_kernel": 1.0, "second_part": 1.0, "plain": 1.0}
    monkeypatch.setattr(evicted, "_measure", lambda *_: [each] * 5)
    recorded: list[harness.Figure] = []
    monkeypatch.setattr(harness, "record", recorder(recorded))
    evicted.run(quick=False)
    assert [f.name for f in recorded] == ["evicted_5_gib", "evicted_in_order_5_gib", "evicted_in_order_all_5_gib"]
    assert "an evicted 5 GiB job" in recorded[0].text


def test_trainings_that_do_not_fit_together_are_not_measured(
    monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
) -> None:
    monkeypatch.setattr(sizes, "free", lambda *_: 8 * GIB)
    monkeypatch.setattr(memory_of_jobs, "_alone", lambda *_: {"persistent": 2 * GIB, "transient": 4 * GIB})
    used: list[Any] = []

    def largest_use(*what: Any) -> tuple[int, int]:
        used.append(what)
        return 8 * GIB, 8 * GIB

    monkeypatch.setattr(memory_of_jobs, "_largest_use", largest_use)
    recorded: dict[str, Any] = {}
    monkeypatch.setattr(harness, "record", lambda name, figures, device, extra: recorded.update(extra))
    memory_of_jobs.run(quick=True)
    assert not used
    assert recorded["not_measured"][0]["why"] == (
        "they need 10.0 GiB with their contexts, and 8.0 GiB of the device are free"
    )
    monkeypatch.undo()
    monkeypatch.setattr(sizes, "free", lambda *_: 8 * GIB)
    failed = subprocess.Popen(["false"], stdout=subprocess.PIPE, text=True)
    monkeypatch.setattr(memory_of_jobs, "_job", lambda *_: failed)
    with pytest.raises(harness.NotRun, match="gpt alone ended with status 1, with 8 GiB of the device free"):
        memory_of_jobs._alone(memory_of_jobs.MIXES[0], "gpt", str(tmp_path))
