"""One operator of each class that the emulated GPU's timing model has a rate for, with what it moves or computes.

Counted as the model counts it (csrc/emulator/operators/work.h, csrc/emulator/runtime/elementwise.h and
multi_tensor.h), so that the emulated GPU takes as long for them as the one on which they were measured.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import torch
from torch.nn import functional

WIDTH = 1024


class Measured(NamedTuple):
    rate: str
    counted: float  # bytes or floating-point operations
    work: Callable[[], object]


def classes(full: bool) -> Iterator[Measured]:
    """Each is to be used up before the next is asked for: it holds memory."""
    size = 1 << (30 if full else 22)
    yield from _moving(size)
    for dtype, element in ((torch.bfloat16, 2), (torch.float32, 4)):
        yield _convolution(dtype, element, full)
        yield _attention(dtype, element, full)


def _moving(size: int) -> Iterator[Measured]:
    one, other, result = (torch.zeros(size // 4 // WIDTH, WIDTH, device="cuda") for _ in range(3))
    yield Measured("elementwise_bytes_per_us", 3 * size, lambda: torch.add(one, other, out=result))
    yield Measured("reduction_bytes_per_us", size + 4, lambda: one.sum())
    # What is kept for the backward pass: two numbers a row.
    yield Measured("normalisation_bytes_per_us", 2 * size + 8 * len(one), lambda: functional.layer_norm(one, (WIDTH,)))
    rows = torch.randint(len(one), (len(one),), device="cuda")
    yield Measured("gather_bytes_per_us", 2 * size + 8 * len(rows), lambda: functional.embedding(rows, one))
    variance = torch.zeros_like(one)
    steps = torch.zeros((), device="cuda")

    def adamw() -> None:
        torch._fused_adamw_(
            [one], [other], [result], [variance], [], [steps],
            lr=1e-3, beta1=0.9, beta2=0.999, weight_decay=0.0, eps=1e-8, amsgrad=False, maximize=False,
        )  # fmt: skip

    yield Measured("optimizer_bytes_per_us", 7 * size, adamw)


def _convolution(dtype: torch.dtype, element: int, full: bool) -> Measured:
    batch, channels, side = (64, 256, 56) if full else (2, 32, 14)
    images = torch.randn(batch, channels, side, side, device="cuda").to(dtype)
    weight = torch.randn(channels, channels, 3, 3, device="cuda").to(dtype)
    operations = 2 * images.numel() * channels * 9
    return Measured(
        f"convolution_operations_per_us_{element}_bytes",
        operations,
        lambda: functional.conv2d(images, weight, padding=1),
    )


def _attention(dtype: torch.dtype, element: int, full: bool) -> Measured:
    batch, heads, length, width = (4, 16, 4096, 64) if full else (1, 2, 128, 64)
    tokens = torch.randn(batch, heads, length, width, device="cuda").to(dtype)
    operations = 4 * batch * heads * length * length * width
    return Measured(
        f"attention_operations_per_us_{element}_bytes",
        operations,
        lambda: functional.scaled_dot_product_attention(tokens, tokens, tokens),
    )
