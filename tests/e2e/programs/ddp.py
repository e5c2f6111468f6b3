"""A rank of a small DDP training over gloo, on device 0; rank 0 writes the losses to the file it is given."""

import os
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(0)
model = DistributedDataParallel(nn.Sequential(nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 1)).cuda())
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
torch.manual_seed(1 + rank)
loader = DataLoader(TensorDataset(torch.randn(96, 128)), batch_size=8)
losses = []
for (x,) in loader:
    optimizer.zero_grad()
    loss = (model(x.cuda()) ** 2).mean()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
if rank == 0:
    with open(sys.argv[1], "w", encoding="ascii") as file:
        file.writelines(f"{loss.hex()}\n" for loss in losses)
sys.stdout.flush()
dist.barrier()
os._exit(0)  # gloo's threads may abort the interpreter while it is taken down
