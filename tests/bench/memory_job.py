"""One training job for memory_of_four: ``memory_job.py KIND STEPS``.

Prints ``settled`` after half of its steps, ``done`` after all, goes on until its standard input ends, and then
prints what it held as a line of JSON. ``persistent`` is what is alive at a boundary, ``transient`` the largest
step's peak above it: live bytes, as PyTorch counts them.

Kinds: ``gpt``, ``bert`` (lengths change), ``resnet``, ``lstm`` at the sizes that people train; ``small-*`` of a few
MiB.
"""

from __future__ import annotations

import itertools
import json
import random
import select
import sys
from collections.abc import Callable, Iterator

import hocket
import torch
from torch import nn
from torch.nn import functional as F

Batches = Callable[[], Iterator[tuple[torch.Tensor, torch.Tensor]]]


class Residual(nn.Module):
    """Adds what its body makes of the input to the input, or to a shortcut of it."""

    def __init__(self, *body: nn.Module, shortcut: nn.Module | None = None) -> None:
        super().__init__()
        self.body, self.shortcut = nn.Sequential(*body), shortcut or nn.Identity()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.shortcut(x) + self.body(x)


class Attention(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (part.unflatten(-1, (-1, 64)).transpose(1, 2) for part in self.qkv(x).chunk(3, -1))
        weights = (q @ k.transpose(-1, -2) / 8).softmax(-1)
        return self.out((weights @ v).transpose(1, 2).flatten(2))


class Lstm(nn.Module):
    def __init__(self, vocabulary: int, width: int, layers: int) -> None:
        super().__init__()
        self.cells = nn.ModuleList(nn.LSTMCell(width, width) for _ in range(layers))
        self.embedding, self.head = nn.Embedding(vocabulary, width), nn.Linear(width, vocabulary)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embedding(tokens).unbind(1)
        for cell in self.cells:
            state, outputs = None, []
            for part in x:
                state = cell(part, state)
                outputs.append(state[0])
            x = outputs
        return self.head(torch.stack(list(x), 1))


def transformer(vocabulary: int, width: int = 768, layers: int = 12) -> nn.Module:
    blocks: list[nn.Module] = []
    for _ in range(layers):
        blocks.append(Residual(nn.LayerNorm(width), Attention(width)))
        feed = (nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
        blocks.append(Residual(nn.LayerNorm(width), *feed))
    return nn.Sequential(nn.Embedding(vocabulary, width), *blocks, nn.Linear(width, vocabulary, bias=False))


def resnet() -> nn.Module:
    """ResNet-50's shape."""

    def conv(inside: int, outside: int, size: int, stride: int = 1) -> list[nn.Module]:
        return [
            nn.Conv2d(inside, outside, size, stride, padding=size // 2, bias=False),
            nn.BatchNorm2d(outside),
            nn.ReLU(),
        ]

    layers, inside = [*conv(3, 64, 7, 2), nn.MaxPool2d(3, 2, 1)], 64
    for width, count in ((64, 3), (128, 4), (256, 6), (512, 3)):
        for i in range(count):
            stride = 2 if i == 0 and width > 64 else 1
            body = [*conv(inside, width, 1), *conv(width, width, 3, stride), *conv(width, 4 * width, 1)[:2]]
            shortcut = nn.Sequential(*conv(inside, 4 * width, 1, stride)[:2]) if i == 0 else None
            layers += [Residual(*body, shortcut=shortcut), nn.ReLU()]
            inside = 4 * width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inside, 1000))


def small(kind: str) -> nn.Module:
    if kind.startswith("small-mlp"):
        width = 1024 if kind.endswith("wide") else 512
        hidden = [nn.Linear(256, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU()]
        return nn.Sequential(*hidden, nn.Linear(width, 10))
    channels = 24 if kind.endswith("wide") else 16
    return nn.Sequential(
        nn.Conv2d(3, channels, 3, padding=1), nn.BatchNorm2d(channels), nn.ReLU(),
        nn.Conv2d(channels, channels, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(channels * 256, 256), nn.ReLU(), nn.Linear(256, 10),
    )  # fmt: skip


def tokens(vocabulary: int, batch: int, lengths: list[int]) -> Batches:
    def draw() -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        while True:
            shape = (batch, random.choice(lengths))
            yield torch.randint(vocabulary, shape, device="cuda"), torch.randint(vocabulary, shape, device="cuda")

    return draw


def samples(classes: int, *shape: int) -> Batches:
    def draw() -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        while True:
            yield torch.randn(*shape, device="cuda"), torch.randint(classes, shape[:1], device="cuda")

    return draw


def build(kind: str) -> tuple[nn.Module, Batches]:
    with torch.device("cuda"):
        if kind == "gpt":
            return transformer(50257), tokens(50257, 8, [512])
        if kind == "bert":
            return transformer(30522), tokens(30522, 16, [64, 128, 192, 256, 320, 384])
        if kind == "resnet":
            return resnet(), samples(1000, 64, 3, 224, 224)
        if kind == "lstm":
            return Lstm(10_000, 1024, 2), tokens(10_000, 64, [35])
        shape = (2048, 256) if kind.startswith("small-mlp") else (48, 3, 32, 32)
        return small(kind), samples(10, *shape)


def main() -> None:
    kind, steps = sys.argv[1], int(sys.argv[2])
    torch.set_num_threads(1)
    torch.manual_seed(0)
    random.seed(0)
    hocket.join(name=kind)
    model, batches = build(kind)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    drawn = batches()
    persistent = peak = 0
    for step in hocket.steps(itertools.count(1), optimizer=optimizer):
        torch.cuda.reset_peak_memory_stats()
        x, y = next(drawn)
        F.cross_entropy(model(x).flatten(0, -2), y.flatten()).backward()
        optimizer.step()
        del x, y
        peak = max(peak, torch.cuda.max_memory_allocated())
        optimizer.zero_grad(set_to_none=True)
        persistent = max(persistent, torch.cuda.memory_allocated())
        if step in (steps // 2, steps):
            print("done" if step == steps else "settled", flush=True)
        if step >= steps and select.select([sys.stdin], [], [], 0)[0]:
            break
    print(json.dumps({"kind": kind, "persistent": persistent, "transient": peak - persistent}), flush=True)


if __name__ == "__main__":
    main()
