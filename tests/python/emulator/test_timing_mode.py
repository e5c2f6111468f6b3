"""Timing mode: kernels compute nothing and take modelled time."""

from __future__ import annotations


def test_a_spin_takes_its_cycles_of_device_time(emulator):
    assert (
        emulator.output(
            """
a, b = (torch.cuda.Event(enable_timing=True) for _ in range(2))
a.record(); torch.cuda._sleep(1980 * 20_000); b.record(); b.synchronize()
print(20 <= a.elapsed_time(b) < 40)
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
