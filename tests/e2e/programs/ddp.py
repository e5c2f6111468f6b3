"""A rank of a DDP training over gloo, on a device of its own where there are enough; rank 0 writes the losses.

ddp.py LOSSES [LAYERS WIDTH [all-on-first]]

all-on-first: every rank keeps a tensor on cuda:0, too, and uses it in each step, as where a checkpoint is loaded to
where it was saved.
"""

import os
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.cuda.set_device(rank % torch.cuda.device_count())
torch.manual_seed(0)
layers, width = map(int, sys.argv[2:4] or (1, 128))
model = nn.Sequential(*(nn.Linear(width, width) for _ in range(layers)), nn.ReLU(), nn.Linear(width, 1)).cuda()
model = DistributedDataParallel(model, gradient_as_bucket_view=True)
loaded = torch.zeros(1000, device="cuda:0") if "all-on-first" in sys.argv else None
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, foreach=False)
torch.manual_seed(1 + rank)
loader = DataLoader(TensorDataset(torch.randn(96, width)), batch_size=8)
losses = []
for (x,) in loader:
    optimizer.zero_grad()
    loss = (model(x.cuda()) ** 2).mean()
    if loaded is not None:
        loss = loss + (loaded + 1).sum().to(loss.device) * 1e-3
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
if rank == 0:
    with open(sys.argv[1], "w", encoding="ascii") as file:
        file.writelines(f"{loss.hex()}\n" for loss in losses)
sys.stdout.flush()
dist.barrier()
os._exit(0)  # gloo's threads may abort the interpreter while it is taken down
