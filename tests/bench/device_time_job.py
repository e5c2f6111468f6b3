"""A worker of ``device_time``: runs steps of one program on the emulated GPU in timing mode; see harness.Worker.

A request ``{"program": P, "steps": n}`` or ``{"program": P, "seconds": s}`` is answered with the steps done and the
wall and CPU seconds that they took. Programs:

``products``  a step is ten matrix products of 2 ms each; the next step is queued before the last is waited for
``training``  a step trains a transformer whose kernels are worth about 20 ms, and waits for them
``dispatch``  the same training, launch by launch, on so few tokens that the device waits for the host
``paced``     the same again, each step followed by sleep until it has taken 20 ms: a processor that has slept finds its
              caches cold, whatever it slept for
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable

import torch
from torch import nn

# 2 * 4096 * 3994 * 4096 operations at 67 per picosecond (csrc/emulator/timing/cost.h) are 2000.2 us.
ROWS, INNER, PRODUCTS = 4096, 3994, 10
STEP_SECONDS = PRODUCTS * 2.0 * ROWS * INNER * ROWS / 67e12


def products() -> Callable[[], None]:
    left, right = torch.empty(ROWS, INNER, device="cuda"), torch.empty(INNER, ROWS, device="cuda")
    result = torch.empty(ROWS, ROWS, device="cuda")
    queued: list[torch.cuda.Event] = []

    def step() -> None:
        for _ in range(PRODUCTS):
            torch.mm(left, right, out=result)
        queued.append(torch.cuda.Event(blocking=True))
        queued[-1].record()
        if len(queued) > 1:
            queued.pop(0).synchronize()

    return step


def training(context: int, width: int = 1024, pace: float = 0) -> Callable[[], None]:
    layers = nn.TransformerEncoderLayer(width, 4, 4 * width, dropout=0.0, batch_first=True, norm_first=True)
    model = nn.TransformerEncoder(layers, 2, enable_nested_tensor=False).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3, foreach=False)  # as many launches whatever the sizes
    tokens = torch.empty(8, context, width, device="cuda")

    def step() -> None:
        begun = time.perf_counter()
        model(tokens).pow(2).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        torch.cuda.synchronize()
        if pace:  # the baseline's pace is what is measured here; nothing waits for it
            time.sleep(max(0.0, pace - (time.perf_counter() - begun)))

    return step


PROGRAMS: dict[str, Callable[[], Callable[[], None]]] = {
    "products": products,
    "training": lambda: training(850),
    "dispatch": lambda: training(16),
    "paced": lambda: training(16, pace=STEP_SECONDS),
}


def main() -> None:
    torch.set_num_threads(1)
    made: dict[str, Callable[[], None]] = {}
    for line in sys.stdin:
        request = json.loads(line)
        name = request["program"]
        if name not in made:
            made[name] = PROGRAMS[name]()
        step, steps = made[name], 0
        wall, cpu = time.perf_counter(), time.process_time()
        while steps < request.get("steps", 1 << 60) and time.perf_counter() - wall < request.get("seconds", 1e9):
            step()
            steps += 1
        torch.cuda.synchronize()
        answer = {"steps": steps, "wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
