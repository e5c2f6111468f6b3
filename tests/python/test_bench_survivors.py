"""What the benchmark of survivors makes of a replay's steps."""

from __future__ import annotations

import gzip
import json
import pathlib
import subprocess
from types import SimpleNamespace
from typing import Any

import pytest

from tests.bench import harness, survivors
from tests.bench.survivors import LEARNT, Survived, figures_of

MIB = 1 << 20


def step(**different: int) -> dict[str, int]:
    return {"step": 0, "live": 100 * MIB, "persistent": 104 * MIB, "arena": 8 * MIB, "adopted": 0, "survived": 40 * MIB,
            "foreseen": 40 * MIB, "allocations": 10, "planned": 9, "deviating": 0,
            "steady": True} | different  # fmt: skip


def test_chunks_that_one_step_of_ten_moves_are_in_its_window() -> None:
    steps = [step() for _ in range(10)]
    steps[7]["adopted"] = 8 * MIB
    found = Survived("gpt", steps)
    assert found.steady and found.moved() == [0.0, 8 / 200]
    assert found.private() == [1.04, 1.04]
    assert found.row() == ["gpt", "repeat", "40.0", "0.020", "1.000", "0.900", "0.0", "1.040"]


def test_whether_steps_repeat_is_what_the_replay_says_of_them() -> None:
    assert Survived("gpt", [step(allocations=i) for i in range(5)]).row()[1] == "repeat"
    assert Survived("bert", [step(steady=False)] * 5).row()[1] == "change"


def test_a_job_of_which_nothing_outlives_a_step_has_no_rate_and_moves_nothing() -> None:
    found = Survived("cnn", [step(survived=0, foreseen=0) for _ in range(5)])
    assert found.moved() == [0.0] and found.row()[4] == "-"


def test_the_page_has_the_worst_of_each_kind() -> None:
    changes = [step(steady=False, adopted=2 * MIB) for i in range(25)]
    found = [
        Survived("good", [step()] * 25),
        Survived("wide", [step(persistent=120 * MIB)] * 25),
        Survived("bert", changes),
    ]
    named = {figure.name: figure for figure in figures_of(found)}
    assert {name: (figure.goal, figure.value) for name, figure in named.items()} == {
        "survivors_steady_moved": (0.0, 0.0), "survivors_steady_private": (1.1, 1.2),
        "survivors_changing_moved": (0.05, 0.05), "survivors_changing_private": (1.1, 1.04),
    }  # fmt: skip
    assert named["survivors_steady_private"].text.endswith("the 2 with survivors, the worst (wide)")


def test_private_memory_is_that_of_jobs_with_survivors() -> None:
    small = Survived("cnn", [step(survived=0, foreseen=0, persistent=800 * MIB)] * 25)
    (moved,) = figures_of([small])
    assert moved.name == "survivors_steady_moved"
    private = list(figures_of([small, Survived("gpt", [step()] * 25)]))[1]
    assert private.value == 1.04 and "the 1 with survivors" in private.text


def test_the_first_repetitions_teach_the_allocator_and_are_not_counted(
    monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
) -> None:
    def run(command: list[str], **how: Any) -> SimpleNamespace:
        repetitions = int(command[2])
        lines = [json.dumps(step(step=i)) for i in range(4 + repetitions)]  # four were recorded
        return SimpleNamespace(stdout="\n".join(lines).encode())

    monkeypatch.setattr(harness, "binary", lambda name: name)
    monkeypatch.setattr(subprocess, "run", run)
    history = tmp_path / "gpt.txt.gz"
    history.write_bytes(gzip.compress(b""))
    found = survivors.replay(history, 13)
    assert [each["step"] for each in found.steps] == list(range(4 + LEARNT, 17))


def test_it_is_measured_once_on_the_emulated_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(harness, "PLACE", harness.Place(emulated=False))
    with pytest.raises(harness.NotRun, match="scripts/bench --emulate survivors"):
        survivors.run(quick=False)
