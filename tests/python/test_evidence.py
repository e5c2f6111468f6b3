"""What makes figures: goals in both directions, which sources they are of, and the emulator's model from a record."""

from __future__ import annotations

import dataclasses
import gzip
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys
import tarfile
from typing import Any

import pytest

from tests.bench import __main__ as bench
from tests.bench import adopt as adopting
from tests.bench import allocation, causes, harness, histories, inference, inference_job, pictures, sizes, source, table
from tests.gpu.programs import slices

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


def test_the_device_is_called_what_torch_calls_it() -> None:
    look = "from tests.bench import harness; harness.use(False); print(harness.device_name(), end='; '); "
    look += "import torch; print(torch.cuda.get_device_name(0))"
    command = [harness.hocket(), "emulate", "--name", "evidence-name", "--memory", "1GiB", "--"]
    said = subprocess.run([*command, sys.executable, "-c", look], capture_output=True, text=True, check=True,
                          cwd=harness.ROOT).stdout.strip()  # fmt: skip
    ours, torchs = said.split("; ")
    assert ours == torchs != ""


@pytest.mark.parametrize(
    ("place", "name"),
    [("docs/results/h200-2026-11-26/costs.txt", "docs/results/h200-2026-11-26/costs.txt"), ("/home/ann/mine", "mine")],
)
def test_a_record_names_the_emulated_gpus_costs_where_they_are_not_its_own(
    monkeypatch: pytest.MonkeyPatch, place: str, name: str
) -> None:
    monkeypatch.setattr(harness, "PLACE", harness.Place())
    monkeypatch.delenv("HOCKET_EMULATOR_COSTS", raising=False)
    usual = harness.origin("scripts/bench")
    assert "emulator_costs" not in usual and table._device({**usual, "device": harness.EMULATED}) == "*emulated*"
    monkeypatch.setenv("HOCKET_EMULATOR_COSTS", str(harness.ROOT / place))
    made = harness.origin("scripts/bench")
    assert made["emulator_costs"] == name
    assert table._device({**made, "device": harness.EMULATED}) == f"*emulated*, costs of {name}"
    harness.PLACE.emulated = False
    assert "emulator_costs" not in harness.origin("scripts/bench")


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


def rows(device: str, **values: list[float]) -> list[tuple[dict[str, Any], str]]:
    """Figures by name, of a device."""
    named = {name: dataclasses.asdict(figure(samples)) for name, samples in values.items()}
    return [(made | {"name": name, "text": f"figure {name}"}, device) for name, made in named.items()]


def test_a_goal_that_is_not_met_is_listed_with_its_cause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(causes, "CAUSES", {"high": "too many copies.", "low": "no cause: it is met."})
    said = table._causes(rows(harness.EMULATED, low=[0.9] * 5, high=[1.1] * 5, higher=[1.2] * 5, late=[1.3] * 5))
    assert "- figure high: too many copies.\n" in said
    assert "- figure higher; figure late: no cause known yet.\n" in said
    assert "figure low" not in said and table._causes(rows(harness.EMULATED, low=[0.9] * 5)) == ""


def test_what_a_run_leaves_open_is_listed_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(causes, "CAUSES", {"wide": "the first blocks."})
    said = table._causes(rows(harness.EMULATED, wide=[0.8, 0.9, 0.95, 1.1, 1.2], wider=[0.7, 0.8, 0.95, 1.2, 1.3]))
    assert "- figure wide (within the interval): the first blocks.\n" in said
    assert "- figure wider (within the interval): no cause known yet.\n" in said


def test_a_devices_own_cause_is_no_other_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    own = {("idle", harness.EMULATED): "by a trace.", ("idle", "NVIDIA H200"): "not traced.", "slow": "arithmetic."}
    monkeypatch.setattr(causes, "CAUSES", own)
    high = {"idle": [1.1] * 5, "slow": [1.1] * 5}
    devices = (harness.EMULATED, "NVIDIA H100", "NVIDIA H200")
    said = table._causes([row for device in devices for row in rows(device, **high)]).splitlines()
    assert said[-4:] == [
        "- figure idle (NVIDIA H100): no cause known yet.",
        "- figure idle (NVIDIA H200): not traced.",
        "- figure idle: by a trace.",
        "- figure slow (NVIDIA H100); figure slow (NVIDIA H200); figure slow: arithmetic.",
    ]


def test_causes_are_of_figures_and_devices_that_there_are() -> None:
    """A cause of a figure that was renamed is one that nobody reads: those on the page are found by name and device."""
    devices = {json.loads(path.read_text())["device"] for path in harness.RESULTS.glob("*.json")}
    assert {key[1] for key in causes.CAUSES if isinstance(key, tuple)} <= devices


def test_sizes_of_one_kind_are_a_line_of_the_picture(tmp_path: pathlib.Path) -> None:
    values = {"spill_rate_4_gib": 0.98, "spill_rate_0.25_gib": 0.9, "exchange_0.25": 0.8, "share": 1.0}
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


def test_a_brief_benchmark_still_makes_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(harness, "PLACE", harness.Place())
    how = {"usual": "all", "brief": "five", "least": "two"}
    assert (harness.extent(False, **how), harness.extent(True, **how)) == ("all", "two")
    harness.use(emulated=True, brief=True)
    assert (harness.extent(False, **how), harness.extent(True, **how)) == ("five", "two")
    with pytest.raises(ValueError, match="needs at least 5"):
        figure([1.0] * 4)


def test_a_baseline_says_what_it_was_measured_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(harness, "PLACE", harness.Place(emulated=True))
    assert allocation.baseline("history") == "PyTorch's native allocator, same history, same emulated GPU"
    harness.use(emulated=False)
    assert allocation.baseline("calls") == "PyTorch's native allocator, same calls, same GPU"


def test_histories_that_have_room_are_replayed_those_asked_for_first(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    gib = sizes.GIB
    for name, size in (("bert", gib), ("gpt", 30 * gib)):
        with gzip.open(tmp_path / f"{name}.txt.gz", "wt") as file:
            file.write(f"# of some training\n0 {size} -1\n1 512 0\n0 -{size} 0\n")
    bert, gpt = sorted(tmp_path.iterdir())
    assert histories.chosen(tmp_path, ("gpt", "resnet")) == [gpt]
    assert histories.chosen(tmp_path, ()) == histories.chosen(tmp_path, ("resnet",)) == [bert, gpt]
    assert histories.peak(gpt) == 30 * gib + 512
    monkeypatch.setattr(sizes, "free", lambda *_: 79 * gib)
    monkeypatch.setattr(harness, "PLACE", harness.Place(emulated=True))
    assert allocation.fits(bert) and allocation.fits(gpt), "each contender has a device of its own"
    harness.use(emulated=False)
    assert allocation.fits(bert) and not allocation.fits(gpt)
    assert "allocation: gpt needs 114.4 GiB, 79.0 are free" in capsys.readouterr().out


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


def test_what_the_drivers_calls_took_becomes_part_of_the_model(tmp_path: pathlib.Path) -> None:
    facts = [
        {"fact": "rate shortest_us", "value": 3.5},
        {"fact": "call create_us", "value": 16.84},
        {"fact": "call map_us_per_mib", "value": 0.0},
        {"fact": "call beside_copy_factor", "value": 1.2},
    ]
    lines = calibrate(record(tmp_path, "scripts/gpu-check", facts)).stdout.splitlines()
    assert lines[-3:] == ["call create_us 16.84", "call map_us_per_mib 0", "call beside_copy_factor 1.2"]
    assert "call host_create_us" in lines[2] and "call create_us" not in lines[2]


def test_a_devices_own_settings_become_the_emulated_ones(tmp_path: pathlib.Path) -> None:
    facts = [
        {"fact": "rate shortest_us", "value": 3.5},
        {"fact": "setting TEARDOWN_MS", "value": 85},
        {"fact": "setting CONTEXT_MEMORY", "value": 543162368},
        {"fact": "setting CONTEXT_MS", "value": 160.4},
    ]
    file = record(tmp_path, "scripts/gpu-check", facts)
    lines = calibrate(file).stdout.splitlines()
    assert lines[-3:] == ["setting CONTEXT_MEMORY 543162368", "setting CONTEXT_MS 160", "setting TEARDOWN_MS 85"]
    assert "not measured" in lines[2] and "SLICE_US" in lines[2]
    costs = tmp_path / "costs"
    costs.write_text("\n".join(lines) + "\n")
    look = (
        "import ctypes as c; d = c.CDLL('libcuda.so.1'); x = c.c_void_p(); f, t = c.c_size_t(), c.c_size_t();"
        "assert not (d.cuInit(0) or d.cuDevicePrimaryCtxRetain(c.byref(x), 0) or d.cuCtxSetCurrent(x));"
        "assert not d.cuMemGetInfo_v2(c.byref(f), c.byref(t)); print(t.value - f.value)"
    )
    command = [harness.hocket(), "emulate", "--name", f"costs-{tmp_path.name}", "--memory", "1GiB", "--"]
    environment = {**os.environ, "HOCKET_EMULATOR_COSTS": str(costs)}
    for said, more in ((543162368, {}), (4096 << 10, {"HOCKET_EMULATOR_CONTEXT_MEMORY": "4MiB"})):
        run = subprocess.run([*command, sys.executable, "-c", look], env={**environment, **more}, capture_output=True,
                             text=True, check=True)  # fmt: skip
        assert int(run.stdout) == said


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "Expecting value"),
        ("[]", "no record of scripts/gpu-check"),
        ('{"machine": {}, "about": {}, "facts": []}', "does not say its device"),
        (None, "No such file"),
    ],
)
def test_what_is_no_record_is_refused_with_a_sentence(tmp_path: pathlib.Path, text: str | None, why: str) -> None:
    file = tmp_path / "record.json"
    if text is not None:
        file.write_text(text)
    refused = calibrate(file)
    assert refused.returncode == 1 and refused.stdout == ""
    assert why in refused.stderr and "Traceback" not in refused.stderr


def test_the_record_of_the_h200_still_becomes_its_data_file() -> None:
    folder = harness.ROOT / "docs/results/h200-2026-11-26"
    assert calibrate(folder / "record.json").stdout == (folder / "costs.txt").read_text()


@pytest.mark.parametrize("fact", ["setting SLICE_US", "call map_us", "rate gather_bytes_per_us"])
@pytest.mark.parametrize("value", [-1, "much", None, float("nan"), True])
def test_a_fact_that_is_no_number_is_refused_by_name(tmp_path: pathlib.Path, value: object, fact: str) -> None:
    facts = [{"fact": "rate shortest_us", "value": 3.5}, {"fact": fact, "value": value}]
    refused = calibrate(record(tmp_path, "scripts/gpu-check", facts))
    assert refused.returncode == 1 and f"{fact.split()[1]} is {value!r}" in refused.stderr


@pytest.mark.parametrize("value", [0, 1e-300, 1e300])
def test_a_rate_that_no_device_has_is_refused_by_name(tmp_path: pathlib.Path, value: float) -> None:
    facts = [{"fact": "rate reduction_bytes_per_us", "value": value}]
    refused = calibrate(record(tmp_path, "scripts/gpu-check", facts))
    assert refused.returncode == 1 and f"reduction_bytes_per_us is {value!r}: it must be from 1e-06" in refused.stderr


def test_a_slice_is_what_others_have_of_the_device_in_between() -> None:
    assert slices.slice_of([100, 101, 2100, 100, 99, 2102, 100]) == (100, [2000, 2002])
    assert slices.slice_of([100] * 9)[1] == []


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


# --- what a machine with a GPU has found ------------------------------------------------------------------------

FIGURE = {
    "name": "makespan_fit", "text": "makespan", "value": 0.55, "low": 0.54, "high": 0.56, "goal": 0.6,
    "baseline": "alone", "samples": [0.55] * 5, "unit": "ratio", "at_least": False,
}  # fmt: skip


def output(folder: pathlib.Path, **changes: object) -> pathlib.Path:
    """A folder as scripts/gpu-check leaves it. ``changes``: "part.key" or "result.key" or "figure.key" -> a value."""
    machine = {"commit": source.commit().removesuffix("-dirty"), "device": "NVIDIA H200", "torch": "2.11.0+cu130"}
    result = {**machine, "benchmark": "makespan", "date": "then", "command": "scripts/bench makespan",
              "machine": "EPYC, 16 cores, Linux", "figures": [{**FIGURE}]}  # fmt: skip
    record = {
        "about": {"command": "scripts/gpu-check", "date": "then"}, "machine": machine, "results": [result],
        "parts": [], "tests": [], "facts": [],
    }  # fmt: skip
    places = {"result": result, "figure": result["figures"][0], "record": record, **record}
    for place, value in changes.items():
        part, key = place.split("__")
        places[part][key] = value
    if "machine__commit" in changes:
        result["commit"] = machine["commit"]
    (folder / "record.json").write_text(json.dumps(record))
    return folder


@pytest.fixture
def results(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    folder = tmp_path / "results"
    folder.mkdir()
    monkeypatch.setattr(harness, "RESULTS", folder)
    return folder


def made_histories(folder: pathlib.Path) -> dict[str, object]:
    """An archive with a history in it, and what a record says of it."""
    archive = folder / "histories.tar.gz"
    with tarfile.open(archive, "w:gz") as tar:
        (folder / "gpt.txt.gz").write_bytes(b"1 512 0")
        tar.add(folder / "gpt.txt.gz", "gpt.txt.gz")
    return {"file": archive.name, "sha256": hashlib.sha256(archive.read_bytes()).hexdigest()}


def test_what_a_gpu_has_shown_is_taken_over_with_where_it_comes_from(
    tmp_path: pathlib.Path, results: pathlib.Path
) -> None:
    named = made_histories(tmp_path)
    folder = output(tmp_path, **{"machine__nvidia-smi": "NVIDIA H200, 580.1", "record__histories": named})
    written = adopting.adopt(folder, bench.BENCHMARKS)
    assert [path.name for path in written] == ["makespan-nvidia-h200.json", "histories-nvidia-h200.tar.gz"]
    data = json.loads((results / "makespan-nvidia-h200.json").read_text())
    assert data["figures"] == [FIGURE] and data["device"] == "NVIDIA H200"
    assert data["adopted"] == {"command": "scripts/gpu-check", "date": "then", "nvidia-smi": "NVIDIA H200, 580.1"}


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"about__command": "scripts/gpu-check --quick"}, "--quick"),
        ({"about__command": "scripts/gpu-check --emulate"}, "emulated GPU"),
        ({"machine__device": "Emulated GPU"}, "emulated GPU"),
        ({"machine__commit": "unknown"}, "commit 'unknown'"),
        ({"machine__commit": "0123456789abcdef"}, "no commit 0123456789abcdef"),
        ({"machine__commit": "8151d82-dirty"}, "changes on top of 8151d82"),
        ({"result__commit": "8151d82"}, "makespan says commit"),
        ({"result__device": "NVIDIA A100"}, "not of one run"),
        ({"result__torch": "1.0"}, "makespan says torch '1.0'"),
        ({"machine__torch": ""}, "the machine does not say its torch"),
        ({"result__benchmark": "../../etc/passwd"}, "no benchmark called"),
        ({"result__figures": []}, "no figures"),
        ({"figure__value": float("nan")}, "where a number belongs"),
        ({"figure__samples": ["x"]}, "where a number belongs"),
        ({"figure__value": 0.9}, "outside its own bounds"),
        ({"record__results": []}, "did not get that far"),
        ({"record__machine": None}, "no 'machine'"),
    ],
)
def test_a_record_that_shows_nothing_of_this_tree_is_refused_whole(
    tmp_path: pathlib.Path, results: pathlib.Path, changes: dict[str, object], why: str
) -> None:
    with pytest.raises(adopting.NotAdopted, match=re.escape(why)):
        adopting.adopt(output(tmp_path, **changes), bench.BENCHMARKS)
    assert list(results.iterdir()) == []


def test_what_is_no_output_of_the_check_is_refused_with_a_sentence(
    tmp_path: pathlib.Path, results: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "record.json").write_text("{")
    for folder, why in ((tmp_path, "is no JSON"), (tmp_path / "elsewhere", "there is no")):
        monkeypatch.setattr(sys, "argv", ["bench", "--adopt", str(folder)])
        assert bench.main() == 1
        assert why in capsys.readouterr().err
    folder = output(tmp_path, record__histories={"file": "histories.tar.gz", "sha256": ""})
    (folder / "histories.tar.gz").write_bytes(b"no archive")
    with pytest.raises(adopting.NotAdopted, match="cannot be read"):
        adopting.adopt(folder, bench.BENCHMARKS)
    assert list(results.iterdir()) == []


@pytest.mark.parametrize(
    ("named", "there", "why"),
    [
        ({}, True, "is of another run"),
        ({"file": "histories.tar.gz", "sha256": "00"}, True, "is not the file that the record names"),
        ({"file": "histories.tar.gz", "sha256": "00"}, False, "the record names histories, and there is no"),
        ({"file": "histories.tar.gz", "sha256": "00", "left out": "too large"}, True, "is of another run"),
        (None, False, "'histories' are None"),
    ],
)
def test_histories_of_another_run_are_not_taken_over(
    tmp_path: pathlib.Path, results: pathlib.Path, named: object, there: bool, why: str
) -> None:
    if there:
        made_histories(tmp_path)
    with pytest.raises(adopting.NotAdopted, match=re.escape(why)):
        adopting.adopt(output(tmp_path, record__histories=named), bench.BENCHMARKS)
    assert list(results.iterdir()) == []
