"""A part of PyTorch's own databases on the emulated GPU; scripts/measure-operators runs them whole."""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys

import known_outcomes
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]
WORKER = pathlib.Path(__file__).with_name("operator_worker.py")

PARTS = {
    "operators": [
        "add",
        "addmm",
        "bernoulli",
        "cat",
        "cumsum",
        "index_put",
        "ldexp",
        "linalg.solve",
        "masked_fill",
        "multinomial",
        "nn.functional.conv2d",
        "nn.functional.dropout",
        "nn.functional.layer_norm",
        "nn.functional.rms_norm",
        "nn.functional.scaled_dot_product_attention",
        "nonzero",
        "sgn",
        "sort",
        "unique",
        "var_mean",
    ],
    "modules": [
        "nn.BatchNorm2d",
        "nn.Embedding",
        "nn.GRUCell",
        "nn.LSTM",
        "nn.MultiheadAttention",
        "nn.TransformerEncoderLayer",
    ],
    # All of them.
    "optimizers": [
        "ASGD",
        "Adadelta",
        "Adafactor",
        "Adagrad",
        "Adam",
        "AdamW",
        "Adamax",
        "LBFGS",
        "Muon",
        "NAdam",
        "RAdam",
        "RMSprop",
        "Rprop",
        "SGD",
        "SparseAdam",
    ],
}


def outcomes(emulator, kind, names, *options, **environment):
    done = subprocess.run(
        [sys.executable, str(WORKER), kind, *options, *names],
        env=emulator.environment(**environment),
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    ends = [e for e in map(json.loads, done.stdout.splitlines()) if "end" in e]
    assert {e["end"] for e in ends} == set(names)
    return {e["end"]: e for e in ends}


@pytest.mark.parametrize("kind", PARTS)
def test_entries_give_the_same_bits_as_on_the_cpu(emulator, kind):
    assert known_outcomes.surprises(kind, outcomes(emulator, kind, PARTS[kind]), whole=False) == []


@pytest.mark.parametrize("spills", ["1", "random"])
@pytest.mark.parametrize("kind", ["modules", "optimizers"])
def test_memory_that_moves_before_each_forward_backward_and_step_changes_no_bit(emulator, kind, spills, tmp_path):
    environment = {"PYTHONPATH": "", "HOCKET_RUNTIME_DIR": str(tmp_path)}  # the package as it is installed
    found = outcomes(emulator, kind, PARTS[kind], "--moved", HOCKET_FORCE_SPILL=spills, **environment)
    assert known_outcomes.surprises(kind, found, whole=False) == []
    moved = [outcome["restored"] > 0 for outcome in found.values()]
    assert all(moved) if spills == "1" else any(moved)


def test_each_listed_exception_fails_naming_its_operator(emulator):
    assert known_outcomes.DIFFERENT["operators"], "the page of the emulated GPU names some"
    for kind, listed in known_outcomes.DIFFERENT.items():
        for name, outcome in (outcomes(emulator, kind, listed) if listed else {}).items():
            assert f"NotImplementedError: Could not run '{listed[name]}'" in outcome["difference"]
        page = (ROOT / "docs" / "emulator.md").read_text()
        assert all(f"| `{name}` | `Could not run '{text}'`" in page for name, text in listed.items())


def test_an_exception_that_is_not_refused_by_its_name_is_a_surprise():
    outcome = {"samples": 1, "refused_by_cpu": {}, "unsteady": 0, "difference": "sample 0: other bits"}
    assert known_outcomes.surprises("operators", {"sparse.mm.reduce": outcome}, whole=False) == [
        "sparse.mm.reduce: sample 0: other bits"
    ]


def test_what_could_not_be_compared_is_a_surprise_and_nothing_is_excused():
    """A measurement that counts what the CPU refuses as a success once hid 11 of 15 optimizers."""
    nothing = {
        "samples": 0,
        "refused_by_cpu": {"ValueError: no": 9},
        "unsteady": 0,
        "difference": "no sample was compared",
    }
    assert len(known_outcomes.surprises("optimizers", {"Muon": nothing}, whole=False)) == 2
    for kind in PARTS:
        assert known_outcomes.REFUSED_BY_CPU[kind] == {}
        assert known_outcomes.unsteady(kind, "2.15.0+cu132") == {}


def test_what_the_cpu_does_not_repeat_is_excused_by_name_for_one_version():
    bits = "sample 3: result 0: 5 of 81 values differ, by at most 1e-7"
    varies = {"samples": 36, "refused_by_cpu": {}, "unsteady": 5, "difference": bits}
    for name in ("linalg.lstsq", "linalg.lstsq.grad_oriented"):
        assert known_outcomes.surprises("operators", {name: varies}, whole=False, torch_version="2.11.0+cu130") == []
        assert len(known_outcomes.surprises("operators", {name: varies}, whole=False, torch_version="2.15.0")) == 2
    assert len(known_outcomes.surprises("operators", {"linalg.qr": varies}, whole=False, torch_version="2.11.0")) == 2
    refused = varies | {"difference": "sample 3: RuntimeError: no"}
    found = known_outcomes.surprises("operators", {"linalg.lstsq": refused}, whole=False, torch_version="2.11.0")
    assert found == ["linalg.lstsq: sample 3: RuntimeError: no"]


def test_the_record_of_a_measurement_says_where_it_comes_from(emulator, tmp_path):
    file = tmp_path / "operators.json"
    script = ROOT / "scripts" / "measure-operators"
    options = ["optimizers", "--only", "Muon", "--emulator", emulator.libraries, "--json", file]
    done = subprocess.run([sys.executable, script, *options], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(file.read_text())
    for fact in ("commit", "date", "command", "machine", "torch"):
        assert found[fact], found
    assert found["device"] == "emulated" and "optimizers --only Muon" in found["command"]
    assert list(found["outcomes"]["optimizers"]) == ["Muon"]
    assert [check["held"] for check in found["checks"]] == [True]
    sums = found["sums"]["optimizers"]
    assert (sums["entries"], sums["same_bits"], sums["killed"], sums["different"]) == (1, 1, 0, {})
    assert sums["samples"] == found["outcomes"]["optimizers"]["Muon"]["samples"] > 0
