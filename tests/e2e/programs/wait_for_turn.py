"""Asks for a turn that another job does not give up."""

import hocket
import torch

hocket.join(name="waiting")
torch.cuda.init()
print("asking", flush=True)
with hocket.step():
    pass
