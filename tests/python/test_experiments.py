"""``scripts/experiment``: each experiment on a small trace of its own, played by the installed ``hocketd``."""

from __future__ import annotations

import csv
import importlib
import json
import os
import pathlib
import random
import shutil
import sys
from collections.abc import Sequence
from typing import Any

import pytest

from tests.experiments import __main__ as command
from tests.experiments import e1, e2, e3, e5, e6, page
from tests.experiments.simulation import Context, Goal, coarsened


@pytest.fixture(scope="module")
def daemon() -> pathlib.Path:
    beside = pathlib.Path(sys.executable).with_name("hocketd")
    found = os.environ.get("HOCKET_DAEMON") or (str(beside) if beside.exists() else shutil.which("hocketd"))
    assert found, "no hocketd beside this Python: run scripts/setup, or name one in HOCKET_DAEMON"
    return pathlib.Path(found).resolve()


def write(path: pathlib.Path, columns: str, rows: Sequence[Sequence[object]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "w", newline="") as file:
        csv.writer(file).writerows([columns.split(), *rows])


@pytest.fixture(scope="module")
def workloads(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """Files like those of the traces, with invented jobs."""
    folder = tmp_path_factory.mktemp("traces")
    runtimes = [[60 + 97 * i] for i in range(12)]
    write(folder / "alibaba-pai" / "philly_runtime_s_every8th_sorted.csv", "runtime_s", runtimes)
    for job in (1, 2, 4):
        batches = [[worker, 400 + 7 * ((worker + i) % 5)] for worker in range(2) for i in range(20)]
        write(folder / "alibaba-pai" / f"mini_batch_time_job_{job}.csv", "worker batch_time_norm", batches)
    iterations = [["one", kind, 0.1 + 0.01 * (i % 3)] for kind in ("a", "b", "c") for i in range(20)]
    write(folder / "chronus" / "iteration_times_1gpu.csv", "set workload seconds", iterations)
    models = [["small", 100, 5, 2000], ["large", 400, 10, 9000]]
    write(folder / "salus" / "iteration_profile.csv", "model iteration_ms startup_s peak_mem_mib", models)
    arrivals = [[60 * i, 30 + 50 * (i % 4), 1 + i % 2] for i in range(12)]
    write(folder / "microsoft-itp" / "cluster10.csv", "submission_time duration num_gpu", arrivals)
    write(
        folder / "gavel" / "isolated_motivation.csv", "gpu job_type steps_per_s", [["v100", "a", 5], ["v100", "b", 2]]
    )
    pairs = "gpu job_type_a job_type_b steps_per_s_a steps_per_s_b"
    write(
        folder / "gavel" / "pairs_motivation.csv",
        pairs,
        [["v100", "a", "b", 0, 0], ["v100", "a", "a", 3, 3], ["v100", "b", "b", 0.6, 0.8]],
    )
    lengths = [[i, "ab"[i % 2], 3000 + 400 * i, 1 + i // 6] for i in range(8)]
    write(folder / "gavel" / "trace_physical_minimize_makespan.csv", "job_id job_type total_steps num_gpus", lengths)
    durations = [["ab"[i % 2], 100 * i, 300 + 20 * i] for i in range(60)]
    write(folder / "gavel" / "trace_philly_b436b2_1gpu.csv", "job_type arrival_s duration_v100_s", durations)
    stages = [[f"model{i}", 1, 100 + 10 * i, 20 + 15 * i] for i in range(5)]
    write(folder / "muri" / "stage_profile.csv", "model num_gpu iteration_ms gpu_ms", stages)
    columns = "job_id submit_time iterations iteration_time resource_time_1 num_gpu"
    for trace in ("trace3", "trace4"):
        jobs = [[i, 1000 * i, 20_000, 100, 30, 1 if i % 20 == 0 else 2] for i in range(80)]
        write(folder / "muri" / f"{trace}.csv", columns, jobs)
    metrics = [
        ["fig9-10", "SRTF", trace, metric, 2000]
        for trace in ("trace3", "trace3_pr")
        for metric in ("avg_jct_s", "makespan_s", "p99_jct_s")
    ]
    write(folder / "muri" / "published_results.csv", "figure policy trace metric value", metrics)
    return folder


@pytest.fixture
def context(workloads: pathlib.Path, daemon: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Context:
    monkeypatch.setattr(e1, "JOBS", 10)
    monkeypatch.setattr(e1, "WORK_S", 600)
    return Context(workloads, daemon, quick=True)


@pytest.mark.parametrize("name", command.EXPERIMENTS)
def test_an_experiment_leaves_its_rows_goals_and_picture(name: str, context: Context, tmp_path: pathlib.Path) -> None:
    record = command.run(name, context, tmp_path)
    text = (tmp_path / f"{name.lower()}.json").read_text()
    assert json.loads(text) == record
    assert record["goals"] and len({tuple(row) for row in record["rows"]}) == 1
    assert all(isinstance(goal["figure"], int | float) and goal["source"] for goal in record["goals"])
    assert record["picture"] is None or (tmp_path / record["picture"]).read_text().count("simulated")
    section = page.section(record)
    assert section.startswith(f"\n## {name}: ") and all(goal["text"] in section for goal in record["goals"])
    for place in (context.workloads, context.daemon, tmp_path):
        assert str(place) not in text


def test_every_module_of_an_experiment_is_named() -> None:
    folder = pathlib.Path(command.__file__).parent
    shared = {"__init__", "__main__", "page", "simulation"}
    assert {path.stem for path in folder.glob("*.py")} - shared == {name.lower() for name in command.EXPERIMENTS}
    assert all(importlib.import_module(f"tests.experiments.{name.lower()}").run for name in command.EXPERIMENTS)


# --- goals


@pytest.mark.parametrize(("figure", "at_least", "met"), [(1.0, False, True), (1.1, False, False), (0.9, True, False)])
def test_a_goal_is_met_from_its_side_and_by_the_bound_itself(figure: float, at_least: bool, met: bool) -> None:
    assert Goal("", figure, 1.0, "", at_least).met is met


# --- ideals


def sized(*seconds: float) -> list[dict[str, Any]]:
    return [{"name": str(i), "arrival_s": 0.0, "steps": round(10 * s), "step_ms": 100} for i, s in enumerate(seconds)]


def equal_shares(sizes: Sequence[float]) -> float:
    """The mean completion time of a batch when those that are left always have equal shares."""
    now, done, total = 0.0, 0.0, 0.0
    for left, size in zip(range(len(sizes), 0, -1), sorted(sizes), strict=True):
        now += (size - done) * left
        done = size
        total += now
    return total / len(sizes)


def test_of_a_batch_equal_shares_take_twice_srtf_less_the_mean_size(context: Context) -> None:
    draw = random.Random(1)
    sizes = [draw.randint(10, 500) / 10 for _ in range(20)]
    best = e1.ideal(sized(*sizes))
    assert best["fair"] == pytest.approx(equal_shares(sizes))
    for policy in ("fair", "srtf"):
        assert context.simulate(sized(*sizes), policy)["mean_jct_s"] == pytest.approx(best[policy], rel=0.02)


def test_the_ideals_of_two_jobs() -> None:
    jobs = sized(10, 2)
    assert e1.ideal(jobs)["queue"] == pytest.approx((10 + 12) / 2)
    assert e1.ideal(jobs)["srtf"] == pytest.approx((2 + 12) / 2)
    jobs[1]["arrival_s"] = 1.0
    ideals = {name: e2.ideal(jobs, 1, key) for name, key in e2.IDEALS.items()}
    assert ideals["FIFO"] == pytest.approx((10 + 11) / 2)
    assert ideals["SRTF"] == pytest.approx((12 + 2) / 2)
    assert e2.ideal(jobs, 2, e2.IDEALS["FIFO"]) == pytest.approx((10 + 2) / 2)


def test_in_the_multi_level_queue_who_has_had_a_levels_time_steps_behind_who_has_not() -> None:
    jobs = sized(700, 50)
    jobs[1]["arrival_s"] = 1.0
    assert e2.ideal(jobs, 1, e2.IDEALS["multi-level"]) == pytest.approx((750 + 649) / 2)


def test_the_oracle_fills_gaps_and_spends_the_bound_on_whole_steps() -> None:
    # Two of the other's steps fit each gap; what the bound allows of delay pays for a part of a third one.
    delay = 200 / 0.98 - 200
    assert e5.oracle((100.0, 100.0), (50.0, 0.0)) == pytest.approx((2 + delay / 50) * 50 / (200 + delay), rel=1e-3)
    assert e5.oracle((10.0, 90.0), (10.0, 90.0)) == pytest.approx(1, rel=0.01)


def test_the_bound_of_pairs_is_what_shares_of_time_allow() -> None:
    beside = {"a": {"a": 0.5, "b": 0.8}, "b": {"a": 0.7, "b": 0.0}}
    work = [e3.Work("a", 8, 0.0), e3.Work("b", 7, 0.0)]
    assert e3.least_time(work, beside) == pytest.approx(10)  # beside each other all the time
    assert e3.least_time([*work, e3.Work("b", 5, 0.0)], beside) == pytest.approx(15)  # two of b do not fit
    late = [*work, e3.Work("b", 5, 20.0)]
    assert e3.least_makespan(late, beside) == pytest.approx(25)
    assert e3.makespan(late, beside, e3.best_partner(beside)) == pytest.approx(25)
    assert e3.makespan(work[:1] * 2, beside, e3.random_partner(beside, 0)) == pytest.approx(16)


def test_sizes_say_who_fits_beside_whom_and_part_nobody_who_does() -> None:
    beside = {"a": {"a": 0.5, "b": 0.8}, "b": {"a": 0.7, "b": 0.0}}
    size = e3.sizes(beside)
    assert 2 * size["b"] > 1 and size["a"] + size["b"] <= 1
    crossed = {"a": {"a": 0.5, "b": 0.0}, "b": {"a": 0.0, "b": 0.5}}  # no sizes say that
    size = e3.sizes(crossed)
    assert max(size.values()) <= 0.5


def test_shares_of_a_window_are_compared_with_the_weights() -> None:
    even = [[float(t) for t in range(1, 80)]] * 2
    assert set(e6.shares(even, [1, 1], 10)) == {(0, 1)}
    (off, jain), *_ = e6.shares(even, [1, 3], 10)
    assert off == pytest.approx(0.25)
    assert jain == pytest.approx((2 + 2 / 3) ** 2 / (2 * (2**2 + (2 / 3) ** 2)))


def test_coarser_steps_are_as_much_work() -> None:
    (job,) = coarsened([{"steps": 1000, "step_ms": 2, "gap_ms": 1}], 10)
    assert (job["steps"], job["step_ms"], job["gap_ms"]) == (100, 20, 10)


# --- the command


def said(arguments: Sequence[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> str:
    monkeypatch.setattr(sys, "argv", ["scripts/experiment", *arguments])
    monkeypatch.delenv("HOCKET_WORKLOADS", raising=False)
    with pytest.raises(SystemExit) as ended:
        command.main()
    assert ended.value.code == 2
    return capsys.readouterr().err


def test_what_cannot_be_run_is_said(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert "no experiment is called 'E99'; there are: E1, " in said(["E99"], monkeypatch, capsys)
    assert "--workloads: /nowhere: there is no such folder" in said(["--workloads", "/nowhere"], monkeypatch, capsys)
    assert "--workloads: not given" in said(["E1"], monkeypatch, capsys)
    assert "--quick needs --results" in said(["scale", "--quick"], monkeypatch, capsys)


def test_what_the_simulator_refuses_is_an_error_with_its_sentence(context: Context) -> None:
    with pytest.raises(RuntimeError, match="'-1' is no step_ms"):
        context.simulate([{"steps": 1, "step_ms": -1}], "fair")
