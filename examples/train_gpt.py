"""A small GPT learns Shakespeare, character by character, and shares the GPU by one line.

python examples/train_gpt.py
hocket emulate -- python examples/train_gpt.py          # without a GPU
"""

from __future__ import annotations

import argparse
import gzip
import pathlib
from collections.abc import Iterator

import hocket  # before CUDA starts
import torch
from record import Record, add_options
from torch import nn
from torch.nn import functional as F

DATA = pathlib.Path(__file__).parent / "data" / "tinyshakespeare.txt.gz"


class Block(nn.Module):
    """Causal self-attention and a feed-forward layer, each normalised first and added to what comes in."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.feed = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        q, k, v = (
            part.view(batch, length, self.heads, -1).transpose(1, 2) for part in self.qkv(self.norm1(x)).chunk(3, -1)
        )
        seen = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(seen.transpose(1, 2).reshape(batch, length, width))
        return x + self.feed(self.norm2(x))


class GPT(nn.Module):
    def __init__(self, vocabulary: int, context: int, width: int, layers: int, heads: int) -> None:
        super().__init__()
        self.token, self.position = nn.Embedding(vocabulary, width), nn.Embedding(context, width)
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(layers)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.token(tokens) + self.position.weight[: tokens.shape[1]]
        return self.head(self.norm(self.blocks(x)))


def text() -> tuple[torch.Tensor, int]:
    """The plays as numbers, and how many different characters there are."""
    plays = gzip.decompress(DATA.read_bytes()).decode()
    number = {character: i for i, character in enumerate(sorted(set(plays)))}
    return torch.tensor([number[character] for character in plays]), len(number)


def batches(plays: torch.Tensor, options: argparse.Namespace) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Pieces of the text, and the same pieces one character on."""
    random = torch.Generator().manual_seed(options.seed)
    for _ in range(options.steps):
        starts = torch.randint(len(plays) - options.context, (options.batch,), generator=random)
        pieces = torch.stack([plays[s : s + options.context + 1] for s in starts])
        yield pieces[:, :-1], pieces[:, 1:]


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_options(parser, steps=100)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--context", type=int, default=64, help="characters that it sees")
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--heads", type=int, default=4)
    return parser.parse_args()


def main() -> None:
    options = parse()
    torch.manual_seed(options.seed)
    record = Record("gpt", options)
    hocket.join(name="gpt", total_steps=options.steps)
    plays, vocabulary = text()
    model = GPT(vocabulary, options.context, options.width, options.layers, options.heads).to(options.device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for x, y in hocket.steps(batches(plays, options), optimizer=optimizer):  # the one line
        logits = model(x.to(options.device))
        loss = F.cross_entropy(logits.flatten(0, 1), y.to(options.device).flatten())
        loss.backward()
        optimizer.step()
        record.step(loss)
    record.save()


if __name__ == "__main__":
    main()
