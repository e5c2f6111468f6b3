"""Small trainings, each with a habit that programs have. Without a line of Hocket.

    habits.py --losses FOLDER [HABIT...]

Each habit runs in a forked child of its own, writes FOLDER/HABIT and says "HABIT ended 0 steps=N restored=BYTES" (the
last two where Hocket is there). Status 1 if one of them failed.
"""

from __future__ import annotations

import argparse
import collections
import copy
import io
import itertools
import multiprocessing
import os
import pathlib
import queue
import sys
import threading
from collections.abc import Callable, Iterator

import torch
import torch._dynamo  # what the first step of an optimizer imports, in each child for seconds
from torch import nn
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, TensorDataset

STEPS = 8
WIDTH = 192

Habit = Callable[[list[float]], None]
HABITS: dict[str, Habit] = {}


def habit(function: Habit) -> Habit:
    HABITS[function.__name__] = function
    return function


def mlp(*widths: int) -> nn.Sequential:
    layers: list[nn.Module] = []
    for before, after in itertools.pairwise(widths):
        layers += [nn.Linear(before, after), nn.Tanh()]
    return nn.Sequential(*layers).cuda()


def rows(count: int = STEPS, size: int = 16, width: int = WIDTH) -> Iterator[torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    for _ in range(count):
        yield torch.randn(size, width, generator=generator)


def adam(*modules: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.Adam([p for module in modules for p in module.parameters() if p.requires_grad], lr=1e-3)


def join(thread: threading.Thread) -> None:
    """Until the system's thread is gone too: before, it counts as one that may touch the GPU at any time."""
    thread.join()  # returns before that, up to Python 3.12
    while pathlib.Path(f"/proc/self/task/{thread.native_id}").exists():
        os.sched_yield()


def learn(optimizer: torch.optim.Optimizer, loss: torch.Tensor, losses: list[float]) -> None:
    """The end of the usual step."""
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())


@habit
def accumulates_gradients(losses: list[float]) -> None:
    model = mlp(WIDTH, WIDTH, WIDTH)
    optimizer = adam(model)
    for i, batch in enumerate(rows(4 * STEPS)):
        loss = model(batch.cuda()).square().mean() / 4
        loss.backward()
        losses.append(loss.item())
        if i % 4 == 3:
            optimizer.step()
            optimizer.zero_grad()


@habit
def mixed_precision_with_a_scaler(losses: list[float]) -> None:
    model = mlp(WIDTH, WIDTH, WIDTH)
    optimizer = adam(model)
    scaler = torch.amp.GradScaler("cuda", init_scale=2.0**16)
    for i, batch in enumerate(rows()):
        with torch.autocast("cuda", dtype=torch.float16):
            loss = model(batch.cuda()).square().mean()
        optimizer.zero_grad()
        scaler.scale(loss * (1e6 if i == 3 else 1)).backward()  # the fourth overflows, and its step is skipped
        scaler.step(optimizer)
        scaler.update()
        losses += [loss.item(), scaler.get_scale()]


@habit
def recomputes_activations(losses: list[float]) -> None:
    blocks = nn.ModuleList(mlp(WIDTH, WIDTH) for _ in range(4))
    optimizer = adam(blocks)
    for batch in rows():
        x = batch.cuda().requires_grad_()
        for block in blocks:
            x = checkpoint(block, x, use_reentrant=False)
        loss = x.square().mean()
        learn(optimizer, loss, losses)


@habit
def closes_over_its_batch(losses: list[float]) -> None:
    model = mlp(WIDTH, 64, 8)
    optimizer = torch.optim.LBFGS(model.parameters(), lr=0.1, max_iter=4, history_size=3)
    for batch in rows():
        x = batch.cuda()

        def closure(x: torch.Tensor = x) -> torch.Tensor:
            optimizer.zero_grad()
            loss = model(x).square().mean()
            loss.backward()
            return loss

        losses.append(optimizer.step(closure).item())


@habit
def two_models_against_each_other(losses: list[float]) -> None:
    maker, judge = mlp(32, WIDTH, WIDTH), mlp(WIDTH, WIDTH, 1)
    of_maker, of_judge = adam(maker), adam(judge)
    for batch in rows():
        noise = torch.randn(16, 32, device="cuda")
        fake = maker(noise)
        judged = judge(batch.cuda()).mean() - judge(fake.detach()).mean()
        of_judge.zero_grad()
        judged.backward()
        of_judge.step()
        made = judge(fake).mean()
        of_maker.zero_grad()
        made.backward()
        of_maker.step()
        losses += [judged.item(), made.item()]


@habit
def carries_state_from_step_to_step(losses: list[float]) -> None:
    lstm = nn.LSTM(WIDTH, 64, batch_first=True).cuda()
    optimizer = adam(lstm)
    state = None
    for batch in rows():
        out, state = lstm(batch.cuda().reshape(2, 8, WIDTH), state)
        state = tuple(part.detach() for part in state)
        loss = out.square().mean()
        learn(optimizer, loss, losses)


@habit
def evaluates_now_and_then(losses: list[float]) -> None:
    model = nn.Sequential(mlp(WIDTH, WIDTH), nn.BatchNorm1d(WIDTH).cuda(), nn.Dropout(0.2))
    optimizer = adam(model)
    for i, batch in enumerate(rows()):
        loss = model(batch.cuda()).square().mean()
        learn(optimizer, loss, losses)
        if i % 3 == 2:
            model.eval()
            with torch.no_grad():
                losses += [model(held_out.cuda()).abs().mean().item() for held_out in rows(5, 64)]
            model.train()


@habit
def keeps_an_average_of_its_weights(losses: list[float]) -> None:
    model = mlp(WIDTH, WIDTH, WIDTH)
    average = torch.optim.swa_utils.AveragedModel(model, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.9))
    optimizer = adam(model)
    for batch in rows():
        x = batch.cuda()
        loss = model(x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        average.update_parameters(model)
        with torch.no_grad():
            losses += [loss.item(), average(x).square().mean().item()]


@habit
def copies_ahead_on_a_side_stream(losses: list[float]) -> None:
    model = mlp(WIDTH, WIDTH, WIDTH)
    optimizer = adam(model)
    side = torch.cuda.Stream()

    def ahead(batch: torch.Tensor) -> torch.Tensor:
        with torch.cuda.stream(side):
            return batch.pin_memory().to("cuda", non_blocking=True)

    batches = rows()
    coming = ahead(next(batches))
    while coming is not None:
        torch.cuda.current_stream().wait_stream(side)
        x = coming
        x.record_stream(torch.cuda.current_stream())
        following = next(batches, None)
        coming = None if following is None else ahead(following)
        loss = model(x).square().mean()
        learn(optimizer, loss, losses)


@habit
def a_thread_prepares_batches_on_the_gpu(losses: list[float]) -> None:
    model = mlp(WIDTH, WIDTH, WIDTH)
    optimizer = adam(model)
    prepared: queue.Queue[torch.Tensor | None] = queue.Queue(maxsize=2)

    def prepare() -> None:
        for batch in rows():
            x = batch.cuda()
            x = (x - x.mean()) / x.std()
            torch.cuda.current_stream().synchronize()
            prepared.put(x)
        prepared.put(None)

    thread = threading.Thread(target=prepare)
    thread.start()
    seen = []
    while (x := prepared.get()) is not None:
        seen.append(x)
        loss = model(x).square().mean()
        learn(optimizer, loss, losses)
    join(thread)
    for x in seen:  # alone now: a job whose other thread works between steps may not be moved there
        loss = model(x).square().mean()
        learn(optimizer, loss, losses)


@habit
def keeps_every_loss_on_the_gpu(losses: list[float]) -> None:
    model = mlp(WIDTH, WIDTH, WIDTH)
    optimizer = adam(model)
    kept, outputs = [], []
    for batch in rows():
        out = model(batch.cuda())
        loss = out.square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        kept.append(loss)  # its graph is gone, its value stays
        outputs.append(out.detach())
    losses += torch.stack(kept).tolist()
    losses += [out.sum().item() for out in outputs]


@habit
def catches_exceptions_in_a_step(losses: list[float]) -> None:
    model = mlp(WIDTH, WIDTH, WIDTH)
    optimizer = adam(model)
    for i, batch in enumerate(rows()):
        try:
            loss = model(batch.cuda()).square().mean()
            optimizer.zero_grad()
            loss.backward()
            if i % 3 == 1:
                raise ArithmeticError("on purpose, with gradients and activations alive")
            if i == 5:
                torch.empty(1 << 50, dtype=torch.uint8, device="cuda")
        except (ArithmeticError, torch.OutOfMemoryError):
            losses.append(-1.0)
            continue
        optimizer.step()
        losses.append(loss.item())


@habit
def tidies_nothing_up(losses: list[float]) -> None:
    model = mlp(WIDTH, WIDTH, WIDTH)
    optimizer = adam(model)
    seen: list[torch.Tensor] = []
    model[1].register_forward_hook(lambda module, arguments, out: seen.append(out))
    for batch in rows():
        x = batch.cuda()
        out = model(x)
        loss = out.square().mean() + seen[-1].abs().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=False)
        losses.append(loss.item())
        del seen[:-1]  # one activation of the last step stays, and so do x, out and loss
    losses.append(seen[-1].sum().item() + x.sum().item() + out.sum().item())


@habit
def looks_few_rows_up_in_a_table(losses: list[float]) -> None:
    table = nn.EmbeddingBag(4096, 64, sparse=True).cuda()
    head = mlp(64, 8)
    sparse, dense = torch.optim.SparseAdam(table.parameters()), adam(head)
    for i in range(STEPS):
        which = torch.randint(4096, (16, 5), generator=torch.Generator().manual_seed(i))
        loss = head(table(which.cuda())).square().mean()
        for optimizer in (sparse, dense):
            optimizer.zero_grad()
        loss.backward()
        for optimizer in (sparse, dense):
            optimizer.step()
        losses.append(loss.item())


@habit
def clips_and_schedules(losses: list[float]) -> None:
    model = mlp(WIDTH, WIDTH, WIDTH)
    groups = [
        {"params": [p for p in model.parameters() if p.dim() == d], "weight_decay": 0.1 * (d - 1)} for d in (1, 2)
    ]
    optimizer = torch.optim.AdamW(groups, lr=1e-2)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=1e-2, total_steps=STEPS)
    for batch in rows():
        loss = model(batch.cuda()).square().mean()
        optimizer.zero_grad()
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 0.01)
        optimizer.step()
        schedule.step()
        losses += [loss.item(), norm.item(), schedule.get_last_lr()[0]]


@habit
def trains_adapters_of_a_frozen_model(losses: list[float]) -> None:
    backbone = mlp(WIDTH, WIDTH, WIDTH, WIDTH).requires_grad_(False)
    adapters = nn.ModuleList(nn.Sequential(nn.Linear(WIDTH, 4), nn.Linear(4, WIDTH)) for _ in range(3)).cuda()
    optimizer = adam(adapters)
    for batch in rows():
        x = batch.cuda()
        for layer, adapter in zip(backbone[::2], adapters, strict=True):
            x = torch.tanh(layer(x) + adapter(x))
        loss = x.square().mean()
        learn(optimizer, loss, losses)


@habit
def sequences_change_their_length(losses: list[float]) -> None:
    layer = nn.TransformerEncoderLayer(64, 4, 128, dropout=0.1, batch_first=True).cuda()
    optimizer = adam(layer)
    for length in (17, 64, 5, 128, 64, 33, 100, 17):
        x = torch.randn(2, length, 64, generator=torch.Generator().manual_seed(length)).cuda()
        loss = layer(x).square().mean()
        learn(optimizer, loss, losses)


@habit
def goes_on_from_a_checkpoint(losses: list[float]) -> None:
    model = mlp(WIDTH, WIDTH, WIDTH)
    optimizer = adam(model)
    for i, batch in enumerate(rows()):
        loss = model(batch.cuda()).square().mean()
        learn(optimizer, loss, losses)
        if i == STEPS // 2:
            file = io.BytesIO()
            torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, file)
            file.seek(0)
            del model, optimizer
            model = mlp(WIDTH, WIDTH, WIDTH)
            optimizer = adam(model)
            saved = torch.load(file, map_location="cuda")
            model.load_state_dict(saved["model"])
            optimizer.load_state_dict(saved["optimizer"])


@habit
def grows_while_it_trains(losses: list[float]) -> None:
    model = mlp(WIDTH, WIDTH)
    optimizer = adam(model)
    for i, batch in enumerate(rows()):
        if i in (3, 6):
            model.extend(mlp(WIDTH, WIDTH))
            optimizer = adam(model)
        loss = model(batch.cuda()).square().mean()
        learn(optimizer, loss, losses)


@habit
def differentiates_twice(losses: list[float]) -> None:
    model = mlp(WIDTH, 64, 1)
    optimizer = adam(model)
    for batch in rows():
        x = batch.cuda().requires_grad_()
        out = model(x).sum()
        (gradient,) = torch.autograd.grad(out, x, create_graph=True)
        loss = (gradient.norm(dim=1) - 1).square().mean()
        learn(optimizer, loss, losses)


@habit
def draws_random_numbers_on_the_gpu(losses: list[float]) -> None:
    model = nn.Sequential(mlp(WIDTH, WIDTH), nn.Dropout(0.5))
    optimizer = adam(model)
    own = torch.Generator("cuda").manual_seed(7)
    for i in range(STEPS):
        x = torch.randn(16, WIDTH, device="cuda", generator=own)
        state = torch.cuda.get_rng_state()
        loss = model(x).square().mean()
        torch.cuda.set_rng_state(state)  # the next one draws the same again
        loss = loss + model(x).square().mean() + i * torch.rand((), device="cuda")
        learn(optimizer, loss, losses)


@habit
def workers_load_into_pinned_memory(losses: list[float]) -> None:
    model = mlp(WIDTH, WIDTH, WIDTH)
    optimizer = adam(model)
    data = TensorDataset(torch.cat(list(rows())))
    for (batch,) in DataLoader(data, batch_size=16, num_workers=1, pin_memory=True):
        loss = model(batch.to("cuda", non_blocking=True)).square().mean()
        learn(optimizer, loss, losses)


@habit
def empties_the_cache_at_every_step(losses: list[float]) -> None:
    model = mlp(WIDTH, WIDTH, WIDTH)
    optimizer = adam(model)
    for batch in rows():
        loss = model(batch.cuda()).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
        del loss
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()


@habit
def remembers_what_it_has_seen(losses: list[float]) -> None:
    actor = mlp(WIDTH, WIDTH, 8)
    target = copy.deepcopy(actor)
    optimizer = adam(actor)
    memory: collections.deque[torch.Tensor] = collections.deque(maxlen=4)
    for batch in rows(2 * STEPS):
        with torch.no_grad():  # acts
            memory.append(torch.cat([batch.cuda(), actor(batch.cuda())], dim=1))
        if len(memory) < 4:
            continue
        replay = torch.cat(list(memory))  # and learns from what it remembers
        loss = (actor(replay[:, :WIDTH]) - target(replay[:, :WIDTH]).detach() - replay[:, WIDTH:]).square().mean()
        learn(optimizer, loss, losses)
        with torch.no_grad():
            for mine, theirs in zip(target.parameters(), actor.parameters(), strict=True):
                mine.lerp_(theirs, 0.1)


def run(name: str, folder: str) -> None:
    torch.manual_seed(0)
    losses: list[float] = []
    HABITS[name](losses)
    pathlib.Path(folder, name).write_text("".join(f"{float(loss).hex()}\n" for loss in losses), encoding="ascii")
    counts = ""
    if "hocket._native" in sys.modules:
        from hocket import _native

        restored = sum(device["restored_total"] for device in _native.holdings())
        counts = f" steps={_native.info()['steps']} restored={restored}"
    print(f"{name} ended 0{counts}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--losses", required=True)
    parser.add_argument("habits", nargs="*", default=list(HABITS))
    options = parser.parse_args()
    failed = 0
    for name in options.habits:
        child = multiprocessing.get_context("fork").Process(target=run, args=(name, options.losses))
        child.start()
        child.join()
        if child.exitcode != 0:
            failed = 1
            print(f"{name} ended {child.exitcode}", flush=True)
    sys.exit(failed)


if __name__ == "__main__":
    main()
