"""Two threads of one process train a model each."""

import argparse
import threading

import eager  # noqa: F401
import hocket
import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--losses")
options = parser.parse_args()
hocket.join(name="two-threads")
results: dict[int, list[float]] = {}


def model_and_data(seed: int) -> tuple[nn.Module, list[torch.Tensor]]:
    generator = torch.Generator().manual_seed(seed)
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 1)), [
        torch.randn(16, 128, generator=generator) for _ in range(12)
    ]


def train(seed: int, model: nn.Module, data: list[torch.Tensor]) -> None:
    model.cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    losses = []
    for x in hocket.steps(data, optimizer=optimizer):
        loss = (model(x.cuda()) ** 2).mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    results[seed] = losses


threads = [threading.Thread(target=train, args=(seed, *model_and_data(seed))) for seed in (1, 2)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
with open(options.losses, "w", encoding="ascii") as file:
    file.writelines(f"{loss.hex()}\n" for seed in (1, 2) for loss in results[seed])
