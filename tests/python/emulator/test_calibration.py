"""From a GPU's record to the times of the emulated GPU (scripts/calibrate), one operator of each class."""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]

# A made-up device: every rate another one, and so low that nothing is as short as the shortest kernel.
RATES = {
    "shortest_us": 0.5,
    "memory_bytes_per_us": 4e5,
    "elementwise_bytes_per_us": 3.1e4,
    "reduction_bytes_per_us": 2.3e4,
    "normalisation_bytes_per_us": 1.7e4,
    "gather_bytes_per_us": 1.3e4,
    "optimizer_bytes_per_us": 1.1e4,
    "convolution_operations_per_us_2_bytes": 7e4,
    "convolution_operations_per_us_4_bytes": 5e4,
    "attention_operations_per_us_2_bytes": 3e4,
    "attention_operations_per_us_4_bytes": 2e4,
}

# Each operator's device time in microseconds. The stream is held while it is queued, so that the host's speed
# does not show.
TIMES = """
import ctypes, json, sys, threading
sys.path.insert(0, ROOT)
from tests.gpu.programs import operators
driver, held = ctypes.CDLL("libcuda.so.1"), ctypes.CFUNCTYPE(None, ctypes.c_void_p)
def time(work):
    work()  # what is made at a first call
    go = threading.Event()
    hold = held(lambda _: go.wait() and None)
    a, b = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    assert driver.cuLaunchHostFunc(ctypes.c_void_p(torch.cuda.current_stream().cuda_stream), hold, None) == 0
    a.record(); work(); b.record(); go.set(); b.synchronize()
    return a.elapsed_time(b) * 1e3
"""

ALL = "print(json.dumps({each.rate: [each.counted, time(each.work)] for each in operators.classes(False)}))"


def costs(folder: pathlib.Path, rates: dict[str, float]) -> pathlib.Path:
    """The data file that scripts/calibrate makes of a record with those rates."""
    record, file = folder / "record.json", folder / "costs.txt"
    facts = [{"fact": f"rate {name}", "value": value} for name, value in rates.items()]
    machine = {"device": "made up", "torch": "2.15.0", "commit": "abc1234"}
    about = {"command": "scripts/gpu-check", "date": "today"}
    record.write_text(json.dumps({"about": about, "machine": machine, "facts": facts}))
    command = [sys.executable, str(ROOT / "scripts/calibrate"), str(record)]
    file.write_text(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    return file


def times(emulator, program: str, file: pathlib.Path | None = None):
    more = {"HOCKET_EMULATOR_COSTS": str(file)} if file else {}
    return json.loads(emulator.output(f"ROOT = {str(ROOT)!r}{TIMES}{program}", mode="timing", **more))


def test_each_class_takes_what_its_rate_says(emulator, tmp_path):
    found = times(emulator, ALL, costs(tmp_path, RATES))
    assert found.keys() == RATES.keys() - {"shortest_us", "memory_bytes_per_us"}
    for rate, (counted, us) in found.items():
        assert us == pytest.approx(counted / RATES[rate], rel=1e-3), rate


def test_a_record_without_classes_gives_those_that_move_bytes_its_memorys_rate(emulator, tmp_path):
    older = {name: RATES[name] for name in ("shortest_us", "memory_bytes_per_us")}
    file = costs(tmp_path, older)
    assert "rate reduction_bytes_per_us" in file.read_text().splitlines()[2]
    for rate, (counted, us) in times(emulator, ALL, file).items():
        if "bytes_per_us" in rate:
            assert us == pytest.approx(counted / RATES["memory_bytes_per_us"], rel=1e-3), rate


BOTH_WAYS = """
def gradients(work, *inputs):
    inputs = [each.requires_grad_() for each in inputs]
    result = work(*inputs)
    gradient = torch.ones_like(result)
    return time(lambda: torch.autograd.grad(result, inputs, gradient, retain_graph=True))
images, weight = torch.zeros(2, 32, 14, 14, device="cuda"), torch.zeros(32, 32, 3, 3, device="cuda")
tokens = [torch.zeros(1, 2, 128, 64, device="cuda") for _ in range(3)]
attend = F.scaled_dot_product_attention
convolve = lambda images, weight: F.conv2d(images, weight, padding=1)
with torch.inference_mode():
    inference = time(lambda: convolve(images, weight)), time(lambda: attend(*tokens))
print(json.dumps({
    "inference": inference,
    "backward": (gradients(convolve, images, weight), gradients(attend, *tokens)),
    "causal": time(lambda: attend(*[each.detach() for each in tokens], is_causal=True)),
}))
"""


def test_backward_passes_count_their_products_and_a_causal_mask_halves_them(emulator, tmp_path):
    found = times(emulator, BOTH_WAYS, costs(tmp_path, RATES))
    convolution = 2 * 2 * 32 * 14 * 14 * 32 * 9 / RATES["convolution_operations_per_us_4_bytes"]
    attention = 4 * 2 * 128 * 128 * 64 / RATES["attention_operations_per_us_4_bytes"]
    assert found["inference"] == [pytest.approx(convolution, rel=1e-3), pytest.approx(attention, rel=1e-3)]
    assert found["backward"][0] == pytest.approx(2 * convolution, rel=1e-2)
    assert found["backward"][1] == pytest.approx(2.5 * attention, rel=1e-2)
    assert found["causal"] == pytest.approx(attention / 2, rel=1e-3)


GRAPH = """
x = torch.zeros(1 << 20, device="cuda")
x.sum()
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    x.sum()
print(json.dumps(time(graph.replay)))
"""


def test_an_operator_in_a_graph_takes_its_time_at_each_launch(emulator, tmp_path):
    found = times(emulator, GRAPH, costs(tmp_path, RATES))
    assert found == pytest.approx((4 << 20) / RATES["reduction_bytes_per_us"], rel=1e-3)


def test_garbage_in_the_file_ends_the_program_with_the_line(emulator, tmp_path):
    file = tmp_path / "costs.txt"
    file.write_text("# made up\nrate reduction_bytes_per_us 0\n")
    done = emulator.run("torch.zeros(1, device='cuda')", mode="timing", HOCKET_EMULATOR_COSTS=str(file))
    assert done.returncode != 0
    assert "cannot read line 2 of the costs, 'rate reduction_bytes_per_us 0': 0 is not a number from" in done.stderr
