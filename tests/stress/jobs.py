"""Small trainings whose losses are known, for tests that kill them."""

from __future__ import annotations

from collections.abc import Callable

KINDS = ("mlp", "cnn", "gru")


def train(kind: str, steps: int, progress: Callable[[int, str], None]) -> list[str]:
    """Trains ``kind`` for ``steps`` steps on ``cuda`` under Hocket and returns the losses, bit for bit, as hex.

    ``progress(step, loss)`` is called after each step, outside the step. Without a turn's end in between the losses
    depend on nothing but ``kind`` and ``steps``.
    """
    import hocket
    import torch
    from torch import nn

    torch.set_num_threads(1)
    torch.manual_seed(KINDS.index(kind))
    hocket.join(name=kind)
    data = torch.Generator().manual_seed(7)
    if kind == "mlp":
        model: nn.Module = nn.Sequential(
            nn.Linear(64, 768), nn.Tanh(), nn.Linear(768, 768), nn.Tanh(), nn.Linear(768, 8)
        )
        shape = (64, 64)
    elif kind == "cnn":
        model = nn.Sequential(
            nn.Conv2d(1, 8, 3, padding=1),
            nn.BatchNorm2d(8),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(2048, 384),
            nn.Linear(384, 8),
        )
        shape = (16, 1, 16, 16)
    else:
        model = Recurrent()
        shape = (16, 12, 16)
    model = model.cuda()
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    losses = []
    for step in range(steps):
        x, y = torch.randn(*shape, generator=data), torch.randint(0, 8, (shape[0],), generator=data)
        with hocket.step():
            loss = nn.functional.cross_entropy(model(x.cuda()), y.cuda())
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            losses.append(loss.item().hex())
        progress(step, losses[-1])
    return losses


def Recurrent():
    from torch import nn

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.gru, self.out = nn.GRU(16, 64, batch_first=True), nn.Linear(64, 8)

        def forward(self, x):
            return self.out(self.gru(x)[0][:, -1])

    return Net()
