"""Programs drawn at random, each once with PyTorch alone and once with all its memory moved at every step.

    python -m tests.stress.random_programs --seeds 0:200 [--memory 256MiB] [--allocator native]

Prints the seeds whose results differ (or that failed), and ends with status 1 if there are any. A program trains small
models with what programs do between and in steps: changing batches, layers left out, evaluation, accumulation, tensors
kept for later, side streams, exceptions, a second optimizer, mixed precision. It runs in a forked child, so that a seed
costs no import.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import multiprocessing
import os
import pathlib
import random
import subprocess
import sys
import tempfile

STEPS = 14


def program(seed: int) -> str:
    """Runs program ``seed``; what it computed, as a digest."""
    import torch
    from torch import nn

    draw = random.Random(seed)
    torch.manual_seed(seed)
    digest = hashlib.sha256()

    def tell(*tensors: torch.Tensor) -> None:
        for tensor in tensors:
            digest.update(tensor.detach().cpu().numpy().tobytes())

    widths = [draw.choice((8, 64, 96, 256)) for _ in range(draw.randint(3, 7))]
    layers = nn.ModuleList(nn.Linear(a, b) for a, b in itertools.pairwise(widths)).cuda()
    skipped_often = draw.random() < 0.3
    halves = [list(layers.parameters())]
    if draw.random() < 0.3:
        halves = [halves[0][:2], halves[0][2:]]
    kind = draw.choice((torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW, torch.optim.Adagrad))
    optimizers = [kind(half, lr=1e-3) for half in halves]
    scaler = torch.amp.GradScaler("cuda", enabled=draw.random() < 0.4)
    half_precision = draw.random() < 0.4
    side = torch.cuda.Stream()
    kept: list[torch.Tensor] = []

    def forward(x: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cuda", dtype=torch.bfloat16, enabled=half_precision):
            for layer in layers:
                if skipped_often and layer.in_features == layer.out_features and draw.random() < 0.3:
                    continue
                x = torch.tanh(layer(x))
                if draw.random() < 0.05:
                    x = nn.functional.dropout(x, 0.1)
        return x.float()

    batches = [draw.randint(1, 40) for _ in range(draw.choice((1, 1, 2, 5)))]
    for _step in range(STEPS):
        for _ in range(draw.choice((1, 1, 1, 2, 3))):
            rows = torch.randn(draw.choice(batches), widths[0])
            if draw.random() < 0.2:
                with torch.cuda.stream(side):
                    x = rows.pin_memory().to("cuda", non_blocking=True)
                torch.cuda.current_stream().wait_stream(side)
                x.record_stream(torch.cuda.current_stream())
            else:
                x = rows.cuda()
            out = forward(x)
            loss = out.square().mean()
            if draw.random() < 0.1:
                loss = loss + sum(p.square().sum() for p in layers.parameters()) * 1e-4
            if not loss.requires_grad:  # every layer was left out
                continue
            try:
                if draw.random() < 0.05:
                    raise ArithmeticError
                scaler.scale(loss).backward()
            except ArithmeticError:
                continue
            if draw.random() < 0.2:
                kept.append(draw.choice((out, out.detach(), loss, x)))
            if draw.random() < 0.2 and kept:
                tell(kept.pop(draw.randrange(len(kept))))
        for optimizer in optimizers:
            if any(p.grad is not None for group in optimizer.param_groups for p in group["params"]):
                scaler.step(optimizer)
        if scaler.is_enabled() and any(p.grad is not None for p in layers.parameters()):
            scaler.update()
        for optimizer in optimizers:
            optimizer.zero_grad(set_to_none=draw.random() < 0.8)
        tell(loss)
        if draw.random() < 0.15:
            with torch.no_grad():
                for _ in range(draw.randint(1, 4)):
                    tell(forward(torch.randn(draw.choice((16, 64)), widths[0]).cuda()).sum())
        if draw.random() < 0.05:
            torch.cuda.empty_cache()
        if draw.random() < 0.05:
            kept.clear()
    tell(*layers.parameters(), *kept)
    return digest.hexdigest()


def _child(seed: int, folder: str) -> None:
    digest = program(seed)
    if "hocket._native" in sys.modules:
        from hocket import _native

        if not any(device["restored_total"] for device in _native.holdings()):
            sys.exit("nothing was moved")
    pathlib.Path(folder, str(seed)).write_text(digest, encoding="ascii")


def _run_all(seeds: range, folder: str) -> None:
    """What the emulated process does: a child for each seed."""
    import torch
    import torch._dynamo

    torch.set_num_threads(1)
    for seed in seeds:
        child = multiprocessing.get_context("fork").Process(target=_child, args=(seed, folder))
        child.start()
        child.join()
        if child.exitcode != 0:
            pathlib.Path(folder, str(seed)).write_text(f"ended with {child.exitcode}", encoding="ascii")


def _start(how: list[str], seeds: str, folder: str, **variables: str) -> dict[str, str]:
    pathlib.Path(folder).mkdir()
    command = [*how, sys.executable, "-m", "tests.stress.random_programs", "--seeds", seeds, "--into", folder]
    outside = {name: value for name, value in os.environ.items() if not name.startswith("HOCKET_")}
    subprocess.run(command, check=True, env={**outside, **variables})
    return {file.name: file.read_text() for file in pathlib.Path(folder).iterdir()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", default="0:50", help="FIRST:LAST, the last not included")
    parser.add_argument("--memory", default="256MiB")
    parser.add_argument("--allocator", default="hocket")
    parser.add_argument("--into", help=argparse.SUPPRESS)
    options = parser.parse_args()
    first, last = map(int, options.seeds.split(":"))
    if options.into:
        return _run_all(range(first, last), options.into)
    hocket = str(pathlib.Path(sys.executable).with_name("hocket"))
    emulate = [hocket, "emulate", "--name", f"programs-{os.getpid()}", "--check", "--memory", options.memory, "--"]
    with tempfile.TemporaryDirectory(prefix="hk-") as folder:
        alone = _start(emulate, options.seeds, f"{folder}/alone")
        moved = _start(
            [*emulate, hocket, "run", "--"], options.seeds, f"{folder}/moved",
            HOCKET_FORCE_SPILL="1", HOCKET_ALLOCATOR=options.allocator, HOCKET_RUNTIME_DIR=f"{folder}/run",
        )  # fmt: skip
        stop = [hocket, "stop", "--force"]
        subprocess.run(stop, env={**os.environ, "HOCKET_RUNTIME_DIR": f"{folder}/run"}, capture_output=True)
    wrong = [seed for seed in alone if alone[seed] != moved.get(seed) or alone[seed].startswith("ended")]
    for seed in wrong:
        print(f"seed {seed}: alone {alone[seed]}, moved {moved.get(seed)}")
    print(f"{len(alone)} programs, {len(wrong)} wrong")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
