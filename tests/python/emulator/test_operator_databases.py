"""A part of PyTorch's own databases on the emulated GPU; scripts/measure-operators runs them whole."""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys

import pytest

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
        "linalg.lstsq",
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
    "optimizers": ["Adam", "AdamW", "LBFGS", "SGD", "SparseAdam"],
}


@pytest.mark.parametrize("kind", PARTS)
def test_entries_give_the_same_bits_as_on_the_cpu(emulator, kind):
    pytest.importorskip("expecttest", reason="torch.testing._internal needs it")
    done = subprocess.run(
        [sys.executable, str(WORKER), kind, *PARTS[kind]],
        env=emulator.environment(),
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    ends = [e for e in map(json.loads, done.stdout.splitlines()) if "end" in e]
    assert {e["end"] for e in ends if e["samples"]} == set(PARTS[kind])
    assert {e["end"]: e["difference"] for e in ends if e["difference"]} == {}
