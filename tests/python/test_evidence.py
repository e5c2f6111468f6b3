"""What makes figures: goals in both directions, which sources they are of, and the emulator's model from a record."""

from __future__ import annotations

import dataclasses
import json
import pathlib
import subprocess
import sys

import pytest

from tests.bench import __main__ as bench
from tests.bench import allocation, causes, harness, inference, inference_job, pictures, source, table

CALIBRATE = pathlib.Path(__file__).parents[2] / "scripts" / "calibrate"


def figure(samples: list[float], **how) -> harness.Figure:
    return harness.figure("name", "text", samples, 1.0, "baseline", **how)


def test_a_figure_is_the_median_and_its_bounds_hold_it() -> None:
    made = figure([1.0, 9.0, 1.2, 1.1, 0.9])
    assert made.value == 1.1
    assert made.low <= made.value <= made.high <= 9.0


def test_a_goal_is_met_from_its_side() -> None:
    low, high = [0.9] * 5, [1.1] * 5
    assert (figure(low).met, figure(high).met) == ("yes", "no")
    assert (figure(low, at_least=True).met, figure(high, at_least=True).met) == ("no", "yes")


@pytest.mark.parametrize("at_least", [False, True])
def test_a_goal_inside_the_interval_is_left_open(at_least: bool) -> None:
    assert figure([0.8, 0.9, 0.95, 1.1, 1.2], at_least=at_least).met == "within the interval"


def test_a_record_does_not_say_where_somebody_keeps_things(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["bench", "--emulate", "--workloads", "/home/ann/workloads", "a/b"])
    assert harness.origin("scripts/bench")["command"] == "scripts/bench --emulate --workloads workloads a/b"


def test_four_samples_are_no_figure() -> None:
    with pytest.raises(ValueError, match="4 samples"):
        figure([1.0] * 4)


def test_without_git_the_bundles_note_names_the_commit_while_nothing_has_changed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
) -> None:
    note = tmp_path / "SOURCE.json"
    monkeypatch.setattr(source, "_described", lambda: "")
    monkeypatch.setattr(source, "NOTE", note)
    assert source.commit() == "unknown"
    note.write_text(json.dumps({"commit": "abc1234", "fingerprint": source.fingerprint()}))
    assert source.commit() == "abc1234"
    note.write_text(json.dumps({"commit": "abc1234", "fingerprint": "another"}))
    assert source.commit() == "abc1234-dirty"


def test_a_tree_in_which_only_records_have_changed_is_not_dirty(
    monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
) -> None:
    code, record = tmp_path / "code.py", tmp_path / "docs" / "results" / "figure.json"
    record.parent.mkdir(parents=True)
    for file in (code, record):
        file.write_text("as it was")
    author = ["-c", "user.name=nobody", "-c", "user.email=nobody@example.org"]
    for command in (["init", "--quiet"], ["add", "."], [*author, "commit", "--quiet", "--message", "all"]):
        subprocess.run(["git", "-C", str(tmp_path), *command], check=True)
    monkeypatch.setattr(source, "ROOT", tmp_path)
    clean = source.commit()
    record.write_text("measured anew")
    assert source.commit() == clean and not clean.endswith("-dirty")
    code.write_text("changed")
    assert source.commit() == f"{clean}-dirty"


def test_a_goal_that_is_not_met_is_listed_with_its_cause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(causes, "CAUSES", {"high": "too many copies.", "low": "no cause: it is met."})
    rows = [dataclasses.asdict(figure([value] * 5)) for value in (0.9, 1.1, 1.2)]
    for row, name in zip(rows, ("low", "high", "higher"), strict=True):
        row |= {"name": name, "text": f"figure {name}"}
    said = table._causes(rows)
    assert "- figure high: too many copies.\n" in said and "- figure higher: not looked into\n" in said
    assert "figure low" not in said and table._causes(rows[:1]) == ""


def test_sizes_of_one_kind_are_a_line_of_the_picture(tmp_path: pathlib.Path) -> None:
    values = {"spill_rate_4_gib": 0.98, "spill_rate_0.25_gib": 0.9, "exchange_1": 0.8, "share": 1.0}
    figures = [dataclasses.asdict(figure([value] * 5)) | {"name": name} for name, value in values.items()]
    records = [{"device": harness.EMULATED, "figures": figures}]
    lines = pictures.rates(records)
    assert [size for size, _ in lines["spilled (emulated)"]] == [0.25, 4.0]
    assert len(lines) == 1, "a single size is no line"
    assert "rates.svg" in pictures.draw_rates(records, tmp_path)
    drawn = (tmp_path / "rates.svg").read_bytes()
    assert pictures.draw_rates(records, tmp_path) and (tmp_path / "rates.svg").read_bytes() == drawn
    assert pictures.draw_rates([], tmp_path) == ""


def test_a_figure_taken_beside_other_work_says_so() -> None:
    record = {"machine": "cpu, 2 cores, Linux", "load": [2.1, 2.0, 2.0]}
    assert table._busy(record) == ""
    assert "busy" in table._busy({**record, "load": [9.0, 2.0, 2.0]})


@pytest.mark.parametrize(("held", "word"), [(True, "yes"), (False, "**no**")])
def test_what_was_tried_has_a_row_that_says_whether_it_held(
    monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path, held: bool, word: str
) -> None:
    monkeypatch.setattr(table, "RESULTS", tmp_path)
    made = harness.checks_record("kills", "python -m kills", [("a hundred kills", held, "3 jobs killed")], ["csrc"])
    (tmp_path / "kills.json").write_text(json.dumps(made))
    table.write()
    row = next(line for line in (tmp_path / "README.md").read_text().splitlines() if "a hundred kills" in line)
    start = f"| a hundred kills | {word} | 3 jobs killed | *emulated* | {made['torch']} | "
    assert row.startswith(f"{start}{made['commit']}, {made['date']}")


def compared(name: str, steady: bool, ratio: float) -> allocation.Compared:
    ratios = {key: [ratio] * 5 for key in allocation.COMPARED}
    return allocation.Compared(name, steady, ratios, [ratio] * 5)


def test_of_several_histories_the_worst_is_the_figure_and_each_is_in_the_table() -> None:
    found = [compared("a", True, 0.5), compared("b", True, 0.7), compared("c", False, 0.9)]
    figures = {made.name: made for made in allocation.figures_of(found)}
    assert figures["allocation_steady_ns"].value == 0.7
    assert "2 histories whose steps repeat, the worst (b)" in figures["allocation_steady_ns"].text
    assert figures["allocation_changing_p99"].value == 0.9
    assert figures["allocation_changing_p99"].goal == 1.0
    rows = allocation.table_of(found)["rows"]
    assert [row[:3] for row in rows] == [["a", "repeat", "0.500"], ["b", "repeat", "0.700"], ["c", "change", "0.900"]]
    assert "| a | repeat | 0.500 |" in table._table(allocation.table_of(found))


def test_a_percentile_is_a_sample_that_so_many_do_not_exceed() -> None:
    latencies = [float(i) for i in range(200, 0, -1)]
    assert (inference.percentile(latencies, 50), inference.percentile(latencies, 99)) == (100.0, 198.0)
    assert inference.percentile([3.0], 99) == inference.percentile([3.0], 0) == 3.0


@pytest.mark.parametrize(("alone", "gap", "most"), [(10.0, 2.0, 15.0), (10.0, 5.0, 16.0)])
def test_a_request_may_take_half_as_long_again_or_wait_for_the_longest_gap(
    alone: float, gap: float, most: float
) -> None:
    assert inference.bound(alone, gap) == most


def test_requests_leave_the_training_the_rest() -> None:
    assert inference.gets(beside=3.0, alone=4.0, needed=0.25) == pytest.approx(1.0)
    assert inference.gets(beside=3.0, alone=5.0, needed=0.25) == pytest.approx(0.8)


def test_a_trace_is_stretched_to_its_load_and_cut_into_windows() -> None:
    gaps = inference.stretched([0.1, 0.3], device_ms=5.0, load=0.25)
    assert gaps == pytest.approx([0.01, 0.03])
    assert inference.windows([0.125, 0.375], seconds=1.0, count=2) == [[0.125, 0.5, 0.625], [0.0, 0.125, 0.5, 0.625]]


def test_steps_of_a_window_are_counted_in_part_at_either_end() -> None:
    ends = [0.0, 1.0, 3.0, 4.0]
    assert inference_job.whole_and_part(ends, 0.0, 4.0) == 3.0
    assert inference_job.whole_and_part(ends, 0.5, 2.0) == 1.0
    assert inference_job.whole_and_part(ends, 1.0, 3.5) == 1.5
    with pytest.raises(ValueError, match="was asked for"):
        inference_job.whole_and_part(ends, 0.5, 4.5)


def test_latency_and_share_have_a_figure_each_under_hocket_and_sliced() -> None:
    block = {"needed": 0.25, "alone": [10.0] * 100, "hocket": [12.0] * 100, "plain": [24.0] * 100}
    block |= {"training_alone": 4.0, "training_hocket": 2.7, "training_plain": 3.0}
    found = {"blocks": [block] * 5, "request_device_ms": 5.0}
    found["training_yields"] = {"longest_ms": 5.0, "step_ms": 200.0, "yields": 900}
    made = {figure.name: (figure.value, figure.met) for figure in inference.figures_of(found)}
    assert made == {
        "inference_p99": (0.75, "yes"),
        "inference_training": (pytest.approx(0.9), "yes"),
        "inference_sliced_p99": (1.5, "no"),
        "inference_sliced_training": (1.0, "yes"),
    }
    rows = inference.table_of(found)["rows"]
    assert rows[1] == ["under Hocket", "12.0", "12.0", "2.70"]


@pytest.mark.parametrize("given", [False, True])
def test_a_benchmark_without_its_trace_says_what_is_missing_and_has_not_failed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str], given: bool
) -> None:
    monkeypatch.delenv("HOCKET_WORKLOADS", raising=False)
    more = ["--workloads", str(tmp_path)] if given else []
    monkeypatch.setattr(sys, "argv", ["bench", "inference", "--emulate", "--results", str(tmp_path), *more])
    monkeypatch.setattr(harness, "PLACE", harness.Place())
    assert bench.main() == 0
    said = capsys.readouterr().out
    assert "inference: not run" in said and "orion/inter_arrival_s.csv" in said and "--workloads" in said
    assert not list(tmp_path.iterdir())


def record(tmp_path: pathlib.Path, command: str, facts: list[dict]) -> pathlib.Path:
    file = tmp_path / "record.json"
    machine = {"device": "NVIDIA H200", "torch": "2.11.0", "commit": "abc1234"}
    file.write_text(json.dumps({"about": {"command": command, "date": "today"}, "machine": machine, "facts": facts}))
    return file


def calibrate(file: pathlib.Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, str(CALIBRATE), str(file)], capture_output=True, text=True, check=False)


def test_a_record_becomes_a_timing_model_with_its_source(tmp_path: pathlib.Path) -> None:
    facts = [{"fact": "rate copy_in_bytes_per_us", "value": 55000.0}, {"fact": "something else", "value": 1}]
    lines = calibrate(record(tmp_path, "scripts/gpu-check", facts)).stdout.splitlines()
    assert lines[-1] == "rate copy_in_bytes_per_us 55000"
    assert "NVIDIA H200" in lines[0] and "abc1234" in lines[1]


@pytest.mark.parametrize(
    ("command", "facts", "why"),
    [
        ("scripts/gpu-check --emulate", [{"fact": "rate shortest_us", "value": 3.0}], "emulated"),
        ("scripts/gpu-check", [], "no rates"),
    ],
)
def test_a_record_that_measured_no_gpu_is_refused(
    tmp_path: pathlib.Path, command: str, facts: list[dict], why: str
) -> None:
    refused = calibrate(record(tmp_path, command, facts))
    assert refused.returncode == 1
    assert why in refused.stderr
