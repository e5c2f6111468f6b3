"""One training job for memory_of_jobs: ``memory_job.py KIND STEPS [native]``.

Prints ``settled`` after half of its steps, ``done`` after all, goes on until its standard input ends, and then
prints what it held as a line of JSON. ``persistent`` is what is alive at a boundary, ``transient`` the largest
step's peak above it: live bytes, as PyTorch counts them. With ``native`` it is plain torch, ends after its steps, and
prints what PyTorch's allocator had reserved at most.

Kinds: those of more_jobs.py at full size; ``small-*`` of a few MiB.
"""

from __future__ import annotations

import itertools
import json
import select
import sys
from collections.abc import Callable

import torch
from torch import nn
from torch.nn import functional as F

from tests.bench import more_jobs


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


def step_of(kind: str) -> Callable[[int], object]:
    """Builds the training; a call is one step of it, after which no gradient is left."""
    if not kind.startswith("small"):
        return more_jobs.make(kind).step
    with torch.device("cuda"):
        model = small(kind)
    shape = (2048, 256) if kind.startswith("small-mlp") else (48, 3, 32, 32)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)

    def step(_: int) -> None:
        x, y = torch.randn(*shape, device="cuda"), torch.randint(10, shape[:1], device="cuda")
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return step


def main() -> None:
    kind, steps = sys.argv[1], int(sys.argv[2])
    torch.set_num_threads(1)
    torch.manual_seed(0)
    if sys.argv[3:] == ["native"]:
        step = step_of(kind)
        for i in range(1, steps + 1):
            step(i)
        print(json.dumps({"kind": kind, "reserved": torch.cuda.max_memory_reserved()}), flush=True)
        return
    import hocket

    hocket.join(name=kind)
    step = step_of(kind)
    persistent = peak = 0
    for i in hocket.steps(itertools.count(1)):
        torch.cuda.reset_peak_memory_stats()
        step(i)
        peak = max(peak, torch.cuda.max_memory_allocated())
        persistent = max(persistent, torch.cuda.memory_allocated())
        if i in (steps // 2, steps):
            print("done" if i == steps else "settled", flush=True)
        if i >= steps and select.select([sys.stdin], [], [], 0)[0]:
            break
    print(json.dumps({"kind": kind, "persistent": persistent, "transient": peak - persistent}), flush=True)


if __name__ == "__main__":
    main()
