"""Two trainings of each kind, everything spilled at every boundary, lose what one loses alone under plain PyTorch."""

from __future__ import annotations

import pytest

from tests.bench.jobs import KINDS
from tests.gpu.device import Device, data

FORCED = {"HOCKET_FORCE_SPILL": "1"}


def alone_and_shared(device: Device, *how: object) -> None:
    """Runs the training under plain PyTorch and twice with Hocket, and compares to the last bit."""
    arguments = ("--steps", 5, *how)
    names = ("alone", "alone again")
    plain = [device.program("train", *arguments, "--plain", "--losses", device.losses(name)) for name in names]
    shared = [device.program("train", *arguments, "--losses", device.losses(n), **FORCED) for n in ("a", "b")]
    for job in shared:
        assert data(job, "holdings")["restored_total"] > 0, job.story()
        job.finishes()
    for job in plain:
        job.finishes()
    alone = device.losses("alone").read_text()
    assert len(alone.split()) == 5
    assert device.losses("alone again").read_text() == alone, "it loses something else each time, without Hocket"
    for name in ("a", "b"):
        assert device.losses(name).read_text() == alone


@pytest.mark.parametrize("kind", KINDS)
def test_losses_are_those_of_running_alone(device: Device, kind: str) -> None:
    alone_and_shared(device, "--kind", kind, "--size", device.size)


def test_losses_over_the_native_allocator_are_those_of_running_alone(device: Device) -> None:
    device.environment["HOCKET_ALLOCATOR"] = "native"
    alone_and_shared(device, "--kind", "gpt", "--size", device.size)


@pytest.mark.needs("compile")
def test_compiled_losses_are_those_of_running_alone(device: Device) -> None:
    alone_and_shared(device, "--kind", "gpt", "--size", "small", "--compile", "default")


@pytest.mark.needs("graphs")
def test_reduce_overhead_trains_the_same(device: Device, fact) -> None:
    arguments = ("--size", "small", "--steps", 5, "--kind", "cnn", "--compile", "reduce-overhead")
    plain = device.program("train", *arguments, "--plain", "--losses", device.losses("alone"))
    shared = [device.program("train", *arguments, "--losses", device.losses(n), **FORCED) for n in ("a", "b")]
    for job in shared:
        assert data(job, "holdings")["restored_total"] > 0, job.story()
        graphs = data(job, "graphs")
        assert graphs["without"] == 0 and (graphs["captured_inputs"] > 0) == graphs["made"], job.story()
        job.finishes()
    plain.finishes()
    for name in ("a", "b"):
        assert device.losses(name).read_text() == device.losses("alone").read_text()
    how = "in CUDA graphs that are spilled" if graphs["made"] else "without CUDA graphs"
    fact('torch.compile(mode="reduce-overhead")', f"two jobs train {how}, same losses")


@pytest.mark.needs("graphs")
@pytest.mark.usefixtures("each_allocator")
def test_a_captured_graph_replays_across_spills(device: Device) -> None:
    graphs = device.program("graphs", "--rounds", 5, **FORCED)
    held = data(graphs, "holdings")
    graphs.expect("right")
    graphs.finishes()
    assert held["restored_total"] > 0
