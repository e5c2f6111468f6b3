"""Timing mode: kernels compute nothing and take modelled time."""

from __future__ import annotations

# The shortest of several: a busy machine comes between two calls, and only adds to what is measured.


def test_a_spin_takes_its_cycles_of_device_time(emulator):
    assert (
        emulator.output(
            """
def time():
    a, b = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    a.record(); torch.cuda._sleep(1980 * 20_000); b.record(); b.synchronize()
    return a.elapsed_time(b)
print(20 <= min(time() for _ in range(20)) < 40)
""",
            mode="timing",
        )
        == "True"
    )


def test_a_training_step_runs_and_reads_zeros(emulator):
    assert (
        emulator.output(
            """
m = nn.Sequential(nn.Conv2d(1, 4, 3), nn.Flatten(), nn.Linear(4 * 36, 10)).cuda()
optimizer = torch.optim.AdamW(m.parameters())
for _ in range(3):
    loss = F.cross_entropy(m(torch.randn(8, 1, 8, 8, device='cuda')), torch.zeros(8, dtype=torch.long, device='cuda'))
    optimizer.zero_grad(); loss.backward(); optimizer.step()
print(loss.item(), torch.cuda.memory_allocated() > 0)
""",
            mode="timing",
        )
        == "0.0 True"
    )


def test_what_is_read_back_into_pageable_memory_is_the_programs_when_the_call_returns(emulator):
    assert (
        emulator.output(
            """
x, y, pinned = torch.ones(4096, device='cuda'), torch.ones(4096), torch.ones(4096).pin_memory()
late = 0
for _ in range(50):
    y.copy_(x, non_blocking=True)
    read = y.sum().item()
    y.fill_(7.0)
    torch.cuda.synchronize()
    late += read != 0 or y.sum().item() != 7 * 4096
pinned.copy_(x, non_blocking=True); torch.cuda.synchronize()
print(late, pinned.sum().item())
""",
            mode="timing",
        )
        == "0 0.0"
    )


def test_products_take_time_by_the_size_of_their_elements(emulator):
    assert (
        emulator.output(
            """
def once(product, *factors):
    a, b = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    a.record(); product(*factors); b.record(); b.synchronize()
    return a.elapsed_time(b)
def time(product, *factors):
    return min(once(product, *factors) for _ in range(10))
n = 8192
whole = [torch.zeros(n, n, dtype=torch.int8, device='cuda') for _ in range(2)]
half = [torch.zeros(n, n, dtype=torch.float16, device='cuda') for _ in range(2)]
print(time(torch._int_mm, whole[0], whole[1].t()) < 0.7 * time(torch.mm, *half))
""",
            mode="timing",
        )
        == "True"
    )


def test_an_optimizer_takes_the_time_of_the_bytes_that_it_moves(emulator):
    """A lower bound: a busy machine only adds to it. 4 lists are read and 3 written, of 4 bytes an element."""
    assert (
        emulator.output(
            """
parameters = [torch.zeros(1 << 24, device='cuda', requires_grad=True) for _ in range(4)]
for parameter in parameters: parameter.grad = torch.zeros_like(parameter)
optimizer = torch.optim.AdamW(parameters, fused=True)
optimizer.step()
a, b = (torch.cuda.Event(enable_timing=True) for _ in range(2))
a.record(); optimizer.step(); b.record(); b.synchronize()
print(a.elapsed_time(b) >= (1 << 26) * 4 * 7 / 4.8e9)
""",
            mode="timing",
        )
        == "True"
    )
