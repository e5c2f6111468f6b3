"""Records what a training asks of PyTorch's allocator: ``history.py --kind gpt --size full --steps 6 FILE.txt.gz``.

One event a line, ``id size step``: size > 0 allocates, size < 0 frees that id, sizes as PyTorch rounds them; step -1 is
building the model. It comes from PyTorch's own history; a block of a size that nothing else has marks each boundary.
"""

from __future__ import annotations

import argparse
import gzip
from collections.abc import Iterator

import torch

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


def main() -> None:
    torch.cuda.memory._record_memory_history("all", context=None, stacks="python", max_entries=5_000_000)
    job = more_jobs.make(options.kind, options.size, tidy=not options.untidy)
    for i in range(options.steps):
        mark()
        job.step(i)
    recorded = list(events())
    assert recorded and recorded[-1][2] == options.steps - 1, "not every step is in PyTorch's history"
    with gzip.open(options.file, "wt") as file:
        file.writelines(f"{number} {size} {step}\n" for number, size, step in recorded)
    peak, now = 0, 0
    for _, size, _ in recorded:
        now += size
        peak = max(peak, now)
    said.data("recorded", kind=options.kind, events=len(recorded), peak=peak, at_the_end=now)


if __name__ == "__main__":
    main()
