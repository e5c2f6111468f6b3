"""A training whose persistent memory can be chosen; says where it is, and waits there when told to.

    train.py --name a --steps 8 --layers 4 --width 512 [--losses FILE] [--plain] [--late] [--rest S] [--hold PLACE]
    [--idle] [--more] [--counts] [--end HOW]

Lines: "built", "step N" inside step N, "more" after the last one where there are more, "done turns=T steps=S
spilled_total=BYTES restored_total=BYTES".
``--hold built`` or ``--hold N`` waits for a line on standard input there; in a step it uses its turn meanwhile, without
``--idle``. With ``--more`` it then goes on with steps whose losses nobody asks for, until there is a line on standard
input. With ``--counts`` it says "trained" when its steps are done, and is away; at a line on standard input it says
"counts NAME=N ...", of what its allocator counts, and ends at another. ``--end`` (in step ``--at``): raise, exit,
sys.exit or kill.
"""

from __future__ import annotations

import argparse
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--name", default="train")
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--losses")
    parser.add_argument("--plain", action="store_true", help="without a line of Hocket")
    parser.add_argument("--late", action="store_true", help="CUDA starts before hocket is imported")
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--data-from", help="a FIFO: batch 3 is loaded, by a worker, when somebody has written to it")
    parser.add_argument("--child-losses", help="in step 3 it runs itself in a child, which writes them there")
    parser.add_argument("--rest", type=float, default=0, help="so many seconds of each step it waits for the network")
    parser.add_argument("--hold", default="")
    parser.add_argument("--idle", action="store_true", help="held in a step it does nothing with its turn")
    parser.add_argument("--more", action="store_true", help="after its steps it makes others, until it is told")
    parser.add_argument("--counts", action="store_true", help="says what its allocator counts, when it is told")
    parser.add_argument("--end", default="", choices=["", "raise", "exit", "sys.exit", "kill"])
    parser.add_argument("--at", type=int, default=-1)
    return parser.parse_args()


options = parse()
if options.late:
    import torch

    before = torch.ones(1, device="cuda")
if not options.plain:
    import hocket

    hocket.join(name=options.name)
import eager  # noqa: E402, F401
import in_use  # noqa: E402
import torch  # noqa: E402
from torch import nn  # noqa: E402
from torch.utils.data import DataLoader, TensorDataset  # noqa: E402


def reached(place: object) -> None:
    print(f"step {place}" if isinstance(place, int) else place, flush=True)
    if options.hold != str(place):
        return
    if isinstance(place, int) and not options.idle:
        in_use.until_told()
    else:
        sys.stdin.readline()


def end_here() -> None:
    if options.end == "raise":
        raise ArithmeticError("on purpose")
    if options.end == "exit":
        os._exit(9)
    if options.end == "sys.exit":
        sys.exit(3)
    if options.end == "kill":
        os.kill(os.getpid(), signal.SIGKILL)


def run_itself() -> None:
    shape = [f"--{name}={getattr(options, name)}" for name in ("steps", "layers", "width", "batch", "seed")]
    subprocess.run([sys.executable, __file__, "--plain", f"--losses={options.child_losses}", *shape], check=True)


def build() -> tuple[nn.Module, torch.optim.Optimizer]:
    layers = [nn.Linear(options.width, options.width) for _ in range(options.layers)]
    model = nn.Sequential(*layers).to("cuda")
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, foreach=False)
    return model, optimizer


class Rows(TensorDataset):
    def __getitem__(self, i: int) -> tuple[torch.Tensor, ...]:
        if options.data_from and i == 3 * options.batch:
            with open(options.data_from, "rb") as file:
                file.read()
        return super().__getitem__(i)


def data() -> DataLoader:
    generator = torch.Generator().manual_seed(options.seed)
    rows = torch.randn(options.steps * options.batch, options.width, generator=generator)
    return DataLoader(Rows(rows), batch_size=options.batch, num_workers=options.workers)


def until_told(rows: torch.Tensor) -> Iterator[torch.Tensor]:
    """The same batch again and again."""
    while not select.select([sys.stdin], [], [], 0)[0]:
        yield rows


def main() -> None:
    torch.manual_seed(options.seed)
    model, optimizer = build()
    reached("built")
    losses = []
    batches = data() if options.plain else hocket.steps(data(), optimizer=optimizer)
    for i, (rows,) in enumerate(batches):
        rows = rows.to("cuda")
        loss = nn.functional.mse_loss(model(rows), rows)
        loss.backward()
        reached(i)
        if i == options.at:
            end_here()
        if options.child_losses and i == 3:
            run_itself()
        if options.rest:
            time.sleep(options.rest)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    if options.more:
        print("more", flush=True)
        for again in hocket.steps(until_told(rows.to("cpu")), optimizer=optimizer):
            there = again.to("cuda")
            nn.functional.mse_loss(model(there), there).backward()
            if options.rest:
                time.sleep(options.rest)
            optimizer.step()
    if options.losses:
        with open(options.losses, "w", encoding="ascii") as file:
            file.writelines(f"{loss.hex()}\n" for loss in losses)
    from hocket import _native

    if options.counts:
        print("trained", flush=True)
        with hocket.away():
            sys.stdin.readline()
            held = _native.holdings()[0]
            print("counts", *(f"{key}={value}" for key, value in held.items() if type(value) is int), flush=True)
            sys.stdin.readline()
    info = _native.info()
    moved = {key: sum(device[key] for device in _native.holdings()) for key in ("spilled_total", "restored_total")}
    counts = {"turns": info["turns"], "steps": info["steps"], **moved}
    print("done", *(f"{key}={count}" for key, count in counts.items()), flush=True)


if __name__ == "__main__":
    main()
