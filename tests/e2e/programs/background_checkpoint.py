"""Trains, while another thread writes a checkpoint of weights that do not change."""

import sys
import threading

import hocket
import torch
from torch import nn

hocket.join(name="saving")
torch.manual_seed(0)
model = nn.Sequential(*(nn.Linear(744, 744) for _ in range(18))).cuda()
frozen = nn.Linear(744, 744).cuda()
before = frozen.weight.detach().cpu().clone()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, foreach=False)
thread = threading.Thread(target=lambda: torch.save(frozen.state_dict(), sys.argv[1]))
for i, x in enumerate(hocket.steps([torch.randn(8, 744) for _ in range(6)], optimizer=optimizer)):
    if i == 2:
        thread.start()
    (model(x.cuda()) ** 2).mean().backward()
    optimizer.step()
thread.join()
saved = torch.load(sys.argv[1], map_location="cpu")
assert torch.equal(saved["weight"], before), "the checkpoint differs from what was saved"
print("the checkpoint is whole", flush=True)
