"""The trainings that benchmarks and tests/gpu run: our own small model code, random weights, no downloads.

    gpt      a GPT (124 M parameters at full size) on text, bf16 autocast, AdamW
    resnet   a ResNet-50 on synthetic images, SGD with momentum
    bert     a BERT-base encoder with changing lengths, AdamW, clipping
    cnn      a small CNN on digits, Adam

``full`` is the size that the figures are about; ``small`` is the same code with a few thousand parameters, for a device
whose kernels a CPU computes.

>>> job = make("gpt", "full")
>>> loss = job.step(0)      # forward, backward, optimizer; a tensor on the device
"""

from __future__ import annotations

import contextlib
import dataclasses
import gzip
import math
import pathlib
from collections.abc import Callable

import torch
from torch import nn
from torch.nn import functional

DATA = pathlib.Path(__file__).resolve().parents[2] / "examples" / "data"


class Attention(nn.Module):
    """Self-attention with one projection for queries, keys and values."""

    def __init__(self, width: int, heads: int, causal: bool) -> None:
        super().__init__()
        self.heads, self.causal = heads, causal
        self.inward, self.outward = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        parts = self.inward(x).view(batch, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(*parts, is_causal=self.causal)
        return self.outward(mixed.transpose(1, 2).reshape(batch, length, width))


class Layer(nn.Module):
    """A transformer's layer, normalised before its two halves."""

    def __init__(self, width: int, heads: int, causal: bool) -> None:
        super().__init__()
        self.before_attention, self.attention = nn.LayerNorm(width), Attention(width, heads, causal)
        self.before_rest = nn.LayerNorm(width)
        self.rest = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.before_attention(x))
        return x + self.rest(self.before_rest(x))


class Transformer(nn.Module):
    """Token and place embeddings, layers, and a projection onto the vocabulary that shares the embedding's weights."""

    def __init__(self, vocabulary: int, length: int, width: int, heads: int, layers: int, causal: bool) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.layers = nn.Sequential(*[Layer(width, heads, causal) for _ in range(layers)], nn.LayerNorm(width))
        self.head = nn.Linear(width, vocabulary, bias=False)
        self.head.weight = self.tokens.weight
        nn.init.normal_(self.tokens.weight, std=0.02)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        places = torch.arange(tokens.shape[1], device=tokens.device)
        return self.head(self.layers(self.tokens(tokens) + self.places(places)))


def _norm_conv(inner: int, outer: int, kernel: int, stride: int = 1) -> nn.Sequential:
    conv = nn.Conv2d(inner, outer, kernel, stride, padding=kernel // 2, bias=False)
    return nn.Sequential(conv, nn.BatchNorm2d(outer))


class Bottleneck(nn.Module):
    def __init__(self, inner: int, middle: int, stride: int) -> None:
        super().__init__()
        outer = 4 * middle
        self.body = nn.Sequential(
            _norm_conv(inner, middle, 1), nn.ReLU(), _norm_conv(middle, middle, 3, stride), nn.ReLU(),
            _norm_conv(middle, outer, 1),
        )  # fmt: skip
        same = stride == 1 and inner == outer
        self.short = nn.Identity() if same else _norm_conv(inner, outer, 1, stride)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return functional.relu(self.body(x) + self.short(x))


class ResNet(nn.Module):
    """K. He et al., 2015, "Deep Residual Learning for Image Recognition", table 1 (blocks 3, 4, 6, 3: 50 layers)."""

    def __init__(self, blocks: tuple[int, ...], width: int, classes: int) -> None:
        super().__init__()
        layers: list[nn.Module] = [_norm_conv(3, width, 7, 2), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
        inner = width
        for stage, count in enumerate(blocks):
            middle = width << stage
            for block in range(count):
                layers.append(Bottleneck(inner, middle, 2 if block == 0 and stage else 1))
                inner = 4 * middle
        self.body, self.head = nn.Sequential(*layers), nn.Linear(inner, classes)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.head(self.body(images).mean((2, 3)))


@dataclasses.dataclass
class Job:
    """A training: ``step(i)`` trains on batch ``i`` and returns the loss, a tensor on the device.

    ``tidy``: gradients and outputs are gone when a step ends. Otherwise they live until the next step replaces them, as
    in a loop that zeroes its gradients first and keeps what it computed in variables.
    """

    model: nn.Module
    optimizer: torch.optim.Optimizer
    batch: Callable[[int], tuple[torch.Tensor, torch.Tensor]]
    autocast: bool = False
    clip: float = 0.0
    tidy: bool = True
    kept: tuple[torch.Tensor, ...] = ()

    def loss(self, i: int) -> torch.Tensor:
        inputs, targets = self.batch(i)
        casting = torch.autocast("cuda", torch.bfloat16) if self.autocast else contextlib.nullcontext()
        with casting:
            out = self.model(inputs)
            loss = functional.cross_entropy(out.flatten(0, -2).float(), targets.flatten())
        self.keep(out, loss)
        return loss

    def keep(self, *tensors: torch.Tensor) -> None:
        if not self.tidy:
            self.kept = tensors

    def step(self, i: int) -> torch.Tensor:
        if not self.tidy:
            self.optimizer.zero_grad(set_to_none=True)
        loss = self.loss(i)
        loss.backward()
        if self.clip:
            nn.utils.clip_grad_norm_(self.model.parameters(), self.clip)
        self.optimizer.step()
        if self.tidy:
            self.optimizer.zero_grad(set_to_none=True)
        return loss.detach()


def generator(i: int) -> torch.Generator:
    """The same numbers for batch ``i`` in every run."""
    return torch.Generator().manual_seed(1000 + i)


def _text() -> torch.Tensor:
    return torch.frombuffer(bytearray(gzip.open(DATA / "tinyshakespeare.txt.gz").read()), dtype=torch.uint8)


def _gpt(full: bool, batch: int | None = None) -> Job:
    length = 512 if full else 32
    batch = batch or (8 if full else 4)
    vocabulary, width, heads, layers = (50304, 768, 12, 12) if full else (256, 64, 2, 2)
    model = Transformer(vocabulary, length, width, heads, layers, causal=True).cuda()
    text = _text()

    def cut(i: int) -> tuple[torch.Tensor, torch.Tensor]:
        starts = torch.randint(0, len(text) - length - 1, (batch,), generator=generator(i)).tolist()
        rows = torch.stack([text[s : s + length + 1] for s in starts]).long().cuda()
        return rows[:, :-1], rows[:, 1:]

    return Job(model, torch.optim.AdamW(model.parameters(), 3e-4), cut, autocast=full)


def _resnet(full: bool) -> Job:
    side, batch, classes = (224, 64, 1000) if full else (32, 4, 10)
    model = (ResNet((3, 4, 6, 3), 64, classes) if full else ResNet((1, 1), 8, classes)).cuda()

    def images(i: int) -> tuple[torch.Tensor, torch.Tensor]:
        draw = generator(i % 4)
        pictures = torch.randn(batch, 3, side, side, generator=draw)
        return pictures.cuda(), torch.randint(0, classes, (batch,), generator=draw).cuda()

    return Job(model, torch.optim.SGD(model.parameters(), 0.01, momentum=0.9), images, autocast=full)


def _bert(full: bool) -> Job:
    shortest, longest, batch = (64, 384, 16) if full else (8, 32, 4)
    vocabulary, width, heads, layers = (30528, 768, 12, 12) if full else (256, 64, 2, 2)
    model = Transformer(vocabulary, longest, width, heads, layers, causal=False).cuda()

    def sentences(i: int) -> tuple[torch.Tensor, torch.Tensor]:
        draw = generator(i)
        length = int(torch.randint(shortest, longest + 1, (1,), generator=draw))
        tokens = torch.randint(0, vocabulary, (batch, length), generator=draw)
        return tokens.cuda(), tokens.roll(1, 1).cuda()

    return Job(model, torch.optim.AdamW(model.parameters(), 1e-4), sentences, autocast=full, clip=1.0)


def _cnn(full: bool) -> Job:
    with gzip.open(DATA / "digits.csv.gz", "rt") as file:
        table = torch.tensor([[float(n) for n in line.split(",")] for line in file])
    pictures, labels = table[:, :64].view(-1, 1, 8, 8) / 16, table[:, 64].long()
    width, batch = (64, 256) if full else (8, 32)
    model = nn.Sequential(
        nn.Conv2d(1, width, 3, padding=1), nn.ReLU(), nn.Conv2d(width, width, 3, padding=1), nn.ReLU(),
        nn.MaxPool2d(2), nn.Flatten(), nn.Linear(16 * width, 10),
    ).cuda()  # fmt: skip

    def digits(i: int) -> tuple[torch.Tensor, torch.Tensor]:
        chosen = torch.randint(0, len(labels), (batch,), generator=generator(i))
        return pictures[chosen].cuda(), labels[chosen].cuda()

    return Job(model, torch.optim.Adam(model.parameters(), 1e-3), digits)


_MAKERS = {"gpt": _gpt, "resnet": _resnet, "bert": _bert, "cnn": _cnn}
KINDS = tuple(_MAKERS)


def make(kind: str, size: str = "full", batch: int | None = None) -> Job:
    """Builds a training on the current device, always with the same weights and data. ``batch``: of a gpt, for a device
    that is too small for the usual one."""
    torch.manual_seed(0)
    return _MAKERS[kind](size == "full", **({} if batch is None else {"batch": batch}))


def parameters(job: Job) -> int:
    return sum(math.prod(p.shape) for p in job.model.parameters())
