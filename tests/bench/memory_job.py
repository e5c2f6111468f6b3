"""One training job for memory_of_four: ``memory_job.py KIND STEPS``; prints what it holds as a line of JSON.

``persistent`` is what is alive at a boundary, ``transient`` the largest step's peak above it: live bytes, as
PyTorch counts them.
"""

from __future__ import annotations

import json
import sys

import hocket
import torch
from torch import nn


def build(kind: str) -> tuple[nn.Module, torch.Tensor, torch.Tensor]:
    if kind.startswith("mlp"):
        width = 1024 if kind == "mlp-wide" else 512
        hidden = [nn.Linear(256, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU()]
        model = nn.Sequential(*hidden, nn.Linear(width, 10))
        return model.cuda(), torch.randn(2048, 256, device="cuda"), torch.randint(0, 10, (2048,), device="cuda")
    channels = 24 if kind == "cnn-wide" else 16
    model = nn.Sequential(
        nn.Conv2d(3, channels, 3, padding=1), nn.BatchNorm2d(channels), nn.ReLU(),
        nn.Conv2d(channels, channels, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(channels * 256, 256), nn.ReLU(), nn.Linear(256, 10),
    )  # fmt: skip
    return model.cuda(), torch.randn(48, 3, 32, 32, device="cuda"), torch.randint(0, 10, (48,), device="cuda")


def main() -> None:
    kind, steps = sys.argv[1], int(sys.argv[2])
    torch.set_num_threads(1)
    torch.manual_seed(0)
    hocket.join(name=kind)
    model, x, y = build(kind)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    persistent = peak = 0
    for _ in hocket.steps(range(steps), optimizer=optimizer):
        torch.cuda.reset_peak_memory_stats()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
        peak = max(peak, torch.cuda.max_memory_allocated())
        optimizer.zero_grad(set_to_none=True)
        persistent = max(persistent, torch.cuda.memory_allocated())
    print(json.dumps({"kind": kind, "persistent": persistent, "transient": peak - persistent}), flush=True)


if __name__ == "__main__":
    main()
