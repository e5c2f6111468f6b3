"""Check mode under real torch programs: a missing wait is found and named, a program that waits is let pass."""

from __future__ import annotations

import pytest

SIDE_STREAM = """
side = torch.cuda.Stream()
x = torch.ones(1 << 20, device='cuda')
side.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(side): y = x * 2
{between}
del x
z = torch.full((1 << 20,), 3.0, device='cuda')  # the block of x
torch.cuda.synchronize(); print(z.sum().item() == 3 << 20)
"""


def test_a_missing_record_stream_is_found(emulator):
    done = emulator.run(SIDE_STREAM.format(between=""))
    assert done.returncode != 0
    assert "uses without order" in done.stderr
    assert "aten::mul" in done.stderr


@pytest.mark.parametrize("between", ["x.record_stream(side)", "torch.cuda.current_stream().wait_stream(side)"])
def test_a_block_that_is_recorded_or_waited_for_is_let_pass(emulator, between):
    assert emulator.output(SIDE_STREAM.format(between=between)) == "True"


def test_a_result_used_on_another_stream_without_a_wait_is_found(emulator):
    done = emulator.run(
        """
side = torch.cuda.Stream()
with torch.cuda.stream(side): y = torch.ones(8, device='cuda').cumsum(0)
print((y + 1).tolist())
""",
    )
    assert done.returncode != 0
    assert "uses without order" in done.stderr
    assert "aten::cumsum" in done.stderr


def test_pinned_memory_written_under_a_copy_is_found_when_torch_writes_it_by_a_copy(emulator):
    done = emulator.run(
        """
side, host = torch.cuda.Stream(), torch.empty(1 << 20).pin_memory()
x, y = torch.ones(1 << 20, device='cuda'), torch.empty(1 << 20, device='cuda')
torch.cuda.synchronize()
host.copy_(x, non_blocking=True)
with torch.cuda.stream(side): y.copy_(host, non_blocking=True)
torch.cuda.synchronize()
""",
    )
    assert done.returncode != 0
    assert "uses without order" in done.stderr


def test_graphs_that_are_launched_are_checked(emulator):
    program = """
x, y = torch.ones(4, device='cuda'), torch.zeros(4, device='cuda')
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph): y.add_(x)
torch.cuda.synchronize(); side = torch.cuda.Stream()
graph.replay()
{wait}
with torch.cuda.stream(side): y.mul_(2)
torch.cuda.synchronize(); print(y.tolist())
"""
    good = emulator.output(program.format(wait="side.wait_stream(torch.cuda.current_stream())"))
    assert good == "[2.0, 2.0, 2.0, 2.0]"
    bad = emulator.run(program.format(wait=""))
    assert bad.returncode != 0
    assert "aten::add_" in bad.stderr
