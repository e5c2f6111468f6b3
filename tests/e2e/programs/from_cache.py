"""Allocates, when told to, what PyTorch's native allocator has in its cache; says how many segments there are then."""

import sys

import hocket
import torch

hocket.join(name="from-cache")
kept = torch.empty(5 << 20, dtype=torch.uint8, device="cuda")  # of a segment of 16 MiB or more
print("cached", flush=True)
sys.stdin.readline()
more = torch.empty(5 << 20, dtype=torch.uint8, device="cuda")
print(f"segments={torch.cuda.memory_stats()['segment.all.current']}")
