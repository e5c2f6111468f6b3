"""Captures a small training's step as a CUDA graph, and replays it in each of its steps.

    captures.py [--plain] [--hold] [--losses FILE]

It holds 120 MiB of weights, all of which the graph changes. Lines: "capturing" in the midst of the capture, where with
``--hold`` it waits for a line on standard input, and has said that it is away; "captured spilled_total=BYTES
restored_total=BYTES": what had been moved of it just before the capture ended; "done" and the same at the end.
``--plain``: without a line of Hocket; the capture is in its first step then, else before it.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Callable
from pathlib import Path


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--plain", action="store_true")
    parser.add_argument("--hold", action="store_true")
    parser.add_argument("--losses", type=Path)
    return parser.parse_args()


options = parse()
if not options.plain:
    import hocket

    hocket.join(name="captures")
import torch  # noqa: E402
from torch.utils.data import DataLoader, TensorDataset  # noqa: E402

LAYERS, WIDTH, BATCH, STEPS = 30, 1024, 8, 4


def moved() -> str:
    from hocket import _native

    return " ".join(
        f"{key}={sum(device[key] for device in _native.holdings())}" for key in ("spilled_total", "restored_total")
    )


def reach_the_midst() -> None:
    print("capturing", flush=True)
    if options.hold:
        with contextlib.nullcontext() if options.plain else hocket.away():
            sys.stdin.readline()


def train(weights: list[torch.Tensor], x: torch.Tensor, in_the_midst: Callable[[], None]) -> torch.Tensor:
    for number, weight in enumerate(weights):
        if number == LAYERS // 2:
            in_the_midst()
            x = x + torch.zeros(16, 256, WIDTH, device="cuda").sum((0, 1))  # 16 MiB, for which the pool has to grow
        x = torch.tanh(x @ weight)
        weight.mul_(0.99)
    return x.square().mean()


def capture(weights: list[torch.Tensor], given: torch.Tensor) -> tuple[torch.cuda.CUDAGraph, torch.Tensor]:
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        loss = train(weights, given, reach_the_midst)
        until_then = moved()
    print("captured", until_then, flush=True)
    return graph, loss


def main() -> None:
    torch.manual_seed(0)
    weights = [(torch.randn(WIDTH, WIDTH) / 32).to("cuda") for _ in range(LAYERS)]
    given = torch.zeros(BATCH, WIDTH, device="cuda")
    batches = DataLoader(TensorDataset(torch.randn(STEPS * BATCH, WIDTH)), batch_size=BATCH)
    captured = None if options.plain else capture(weights, given)
    losses = []
    for (batch,) in batches if options.plain else hocket.steps(batches):
        graph, loss = captured = captured or capture(weights, given)
        given.copy_(batch)
        graph.replay()
        losses.append(loss.item())
    losses += [weight.double().sum().item() for weight in weights]
    if options.losses:
        options.losses.write_text("".join(f"{loss.hex()}\n" for loss in losses))
    print("done", moved(), flush=True)


if __name__ == "__main__":
    main()
