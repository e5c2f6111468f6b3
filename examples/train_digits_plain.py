"""A convolutional network learns handwritten digits: plain PyTorch, not a line of Hocket.

python examples/train_digits_plain.py
hocket run -- python examples/train_digits_plain.py     # takes turns all the same
"""

from __future__ import annotations

import argparse
import gzip
import pathlib

import torch
from record import Record, add_options
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

DATA = pathlib.Path(__file__).parent / "data" / "digits.csv.gz"


def digits() -> TensorDataset:
    """1797 images of 8x8 pixels with their labels: scikit-learn's digits."""
    with gzip.open(DATA, "rt", encoding="ascii") as file:
        rows = torch.tensor([[float(x) for x in line.split(",")] for line in file])
    return TensorDataset(rows[:, :64].reshape(-1, 1, 8, 8) / 16, rows[:, 64].long())


def network(width: int) -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU(),
        nn.Conv2d(width, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(16 * width, 16 * width), nn.ReLU(), nn.Linear(16 * width, 10),
    )  # fmt: skip


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_options(parser, steps=100)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--width", type=int, default=32, help="channels")
    return parser.parse_args()


def main() -> None:
    options = parse()
    torch.manual_seed(options.seed)
    record = Record("digits", options)
    model = network(options.width).to(options.device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    loader = DataLoader(digits(), batch_size=options.batch, shuffle=True, drop_last=True)
    done = 0
    while done < options.steps:
        for images, labels in loader:
            loss = nn.functional.cross_entropy(model(images.to(options.device)), labels.to(options.device))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            record.step(loss)
            done += 1
            if done == options.steps:
                break
    record.save()


if __name__ == "__main__":
    main()
