"""Trains, while another thread copies weights that do not change into a checkpoint; it waits when half is copied.

background_checkpoint.py FILE STEP: the copying begins at that step. At the last one, the training waits until half is
copied.
"""

import sys
import threading

import eager  # noqa: F401
import hocket
import torch
from torch import nn

hocket.join(name="saving")
torch.manual_seed(0)
model = nn.Sequential(*(nn.Linear(744, 744) for _ in range(14))).cuda()
frozen = nn.Sequential(*(nn.Linear(744, 744) for _ in range(8))).cuda()
before = {name: tensor.cpu() for name, tensor in frozen.state_dict().items()}
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, foreach=False)
STEPS = 6
half_copied = threading.Event()


def save() -> None:
    copies = {}
    for i, (name, tensor) in enumerate(frozen.state_dict().items()):
        if i == 8:
            print("saving", flush=True)
            half_copied.set()
            sys.stdin.readline()
        copies[name] = tensor.clone().cpu()
    torch.save(copies, sys.argv[1])


thread = threading.Thread(target=save)
for i, x in enumerate(hocket.steps([torch.randn(8, 744) for _ in range(STEPS)], optimizer=optimizer)):
    if i == int(sys.argv[2]):
        thread.start()
    if i == STEPS - 1:
        half_copied.wait()
    (model(x.cuda()) ** 2).mean().backward()
    optimizer.step()
print("trained", flush=True)
thread.join()
saved = torch.load(sys.argv[1])
assert saved.keys() == before.keys()
assert all(torch.equal(saved[name], before[name]) for name in before), "the checkpoint differs from what was saved"
print("the checkpoint is whole", flush=True)
