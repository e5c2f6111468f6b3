"""A rank of two, each on a device of its own, that meet in each of their steps.

    meets.py NAME RANK DEVICE --store FILE

Lines: "met" when both are in the process group; then it waits for a line before it uses the device. "step N" in each
step, before it meets the other. "done SUM".
"""

import argparse
import os
import sys

parser = argparse.ArgumentParser()
parser.add_argument("name")
parser.add_argument("rank", type=int)
parser.add_argument("device")
parser.add_argument("--store", required=True)
options = parser.parse_args()
import hocket  # noqa: E402

hocket.join(name=options.name)
import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402

dist.init_process_group("gloo", init_method=f"file://{options.store}", rank=options.rank, world_size=2)
print("met", flush=True)
sys.stdin.readline()
weights = None
for number in hocket.steps(range(4)):
    if weights is None:
        weights = torch.full((64, 64), float(options.rank + 1), device=options.device)
    print("step", number, flush=True)
    gradients = weights.cpu()
    dist.all_reduce(gradients)
    weights += gradients.to(options.device)
print("done", weights.sum().item(), flush=True)
dist.barrier()
os._exit(0)  # gloo's threads may abort the interpreter while it is taken down
