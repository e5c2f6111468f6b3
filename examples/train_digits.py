"""A convolutional network learns handwritten digits, and shares the GPU by one line.

python examples/train_digits.py
hocket emulate -- python examples/train_digits.py       # without a GPU
"""

from __future__ import annotations

import itertools

import hocket  # before CUDA starts
import torch
from record import Record
from torch import nn
from torch.utils.data import DataLoader
from train_digits_plain import digits, network, parse


def main() -> None:
    options = parse()
    torch.manual_seed(options.seed)
    record = Record("digits", options)
    hocket.join(name="digits", total_steps=options.steps)
    model = network(options.width).to(options.device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    loader = DataLoader(digits(), batch_size=options.batch, shuffle=True, drop_last=True)
    batches = itertools.chain.from_iterable(itertools.repeat(loader))
    for images, labels in hocket.steps(itertools.islice(batches, options.steps), optimizer=optimizer):  # the one line
        loss = nn.functional.cross_entropy(model(images.to(options.device)), labels.to(options.device))
        loss.backward()
        optimizer.step()
        record.step(loss)
    record.save()


if __name__ == "__main__":
    main()
