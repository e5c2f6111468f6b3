"""Records what a training asks of PyTorch's allocator: ``history.py --kind gpt --size full --steps 6 FILE.txt.gz``.

One event a line, ``id size step``: size > 0 allocates, size < 0 frees that id, sizes as PyTorch rounds them; step -1 is
building the model. It comes from PyTorch's own history; a block of a size that nothing else has marks each boundary.

The first line says of what it is: ``# {"kind": ..., "untidy": ..., "device": ..., "torch": ..., "cudnn": its version, 0
where it is off, "attention": by which kernels torch computed it}``, as they were in force while it was recorded.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import re
from collections.abc import Iterator
from typing import Any

import torch
from torch.nn import functional

from tests.bench import more_jobs
from tests.gpu.programs import said

parser = argparse.ArgumentParser()
parser.add_argument("--kind", required=True)
parser.add_argument("--size", default="small")
parser.add_argument("--untidy", action="store_true", help="gradients and outputs live until the next step")
parser.add_argument("--steps", type=int, default=6)
parser.add_argument("file")
options = parser.parse_args()
MARK = 2411 * 512


def mark() -> None:
    torch.empty(MARK, dtype=torch.uint8, device="cuda")


def events() -> Iterator[tuple[int, int, int]]:
    """(id, size, step) of each allocation and free."""
    alive: dict[int, tuple[int, int]] = {}
    step, born = -1, 0
    for entry in torch.cuda.memory._snapshot()["device_traces"][0]:
        address, size = entry["addr"], entry["size"]
        if size == MARK:
            step += entry["action"] == "alloc"
        elif entry["action"] == "alloc":
            alive[address] = born, size
            yield born, size, step
            born += 1
        elif entry["action"] == "free_requested" and address in alive:
            number, size = alive.pop(address)
            yield number, -size, step


def attention_kernels() -> set[str]:
    """Fills with what computes attention from now on: flash, efficient, cudnn; math where it is several operators."""
    found = set()
    usual = functional.scaled_dot_product_attention

    def watched(*given: Any, **named: Any) -> torch.Tensor:
        out = usual(*given, **named)
        if out.grad_fn is not None:
            fused = re.search(r"ScaledDotProduct(\w+)Attention", out.grad_fn.name())
            found.add(fused[1].lower() if fused else "math")
        return out

    functional.scaled_dot_product_attention = watched
    return found


def about(attention: set[str]) -> dict[str, Any]:
    cudnn = torch.backends.cudnn
    return {
        "kind": options.kind,
        "size": options.size,
        "untidy": options.untidy,
        "device": torch.cuda.get_device_name(0),
        "torch": torch.__version__,
        "cudnn": cudnn.version() if cudnn.enabled and cudnn.is_available() else 0,
        "attention": sorted(attention),
    }


def main() -> None:
    attention = attention_kernels()
    torch.cuda.memory._record_memory_history("all", context=None, stacks="python", max_entries=5_000_000)
    job = more_jobs.make(options.kind, options.size, tidy=not options.untidy)
    for i in range(options.steps):
        mark()
        job.step(i)
    recorded = list(events())
    assert recorded and recorded[-1][2] == options.steps - 1, "not every step is in PyTorch's history"
    with gzip.open(f"{options.file}.part", "wt") as file:
        file.write(f"# {json.dumps(about(attention))}\n")
        file.writelines(f"{number} {size} {step}\n" for number, size, step in recorded)
    os.rename(f"{options.file}.part", options.file)
    peak, now = 0, 0
    for _, size, _ in recorded:
        now += size
        peak = max(peak, now)
    said.data("recorded", **about(attention), events=len(recorded), peak=peak, at_the_end=now)


if __name__ == "__main__":
    main()
