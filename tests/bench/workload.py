"""A worker that trains in blocks; see harness.Worker.

    workload.py plain|hocket [--kind gpt] [--size small] [--batch N] [--device-ms 20] [--logs] [--name NAME]
                [--weight 1] [--priority normal]

``plain`` knows no Hocket; ``hocket`` makes each pass a step. ``--logs``: the host waits for each step's loss, as in a
loop that logs it. ``--device-ms`` adds so much device time to each step, and the host waits for that, too.

A request runs ``steps`` steps, or for ``seconds`` seconds, with ``gap_ms`` of loading before each: a wait outside the
step, as for a loader's workers. The answer has the steps, the wall and CPU seconds they took, the wall seconds of these
pauses, when all was over (seconds of the monotonic clock) and, where the kernel counts them, the instructions retired
by this process. ``{"hold": N}`` takes N bytes beside the model, and keeps them. While it waits for a request its memory
can be moved out of another's way, too.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import itertools
import json
import os
import struct
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from typing import Any

KHZ = 1_980_000  # an H200's, where torch does not say


class Instructions:
    """Instructions retired by this process and its later threads (perf_event_open(2)); None where the kernel cannot."""

    def __init__(self) -> None:
        # struct perf_event_attr: type HARDWARE (0), size 112, config INSTRUCTIONS (1), flags inherit + exclude_kernel
        # + exclude_hv.
        attr = struct.pack("=IIQQQQQ", 0, 112, 1, 0, 0, 0, (1 << 1) | (1 << 5) | (1 << 6)).ljust(112, b"\0")
        libc = ctypes.CDLL(None, use_errno=True)
        self._fd = libc.syscall(298, attr, 0, -1, -1, 0)

    def read(self) -> int | None:
        return struct.unpack("q", os.read(self._fd, 8))[0] if self._fd >= 0 else None


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("mode", choices=["plain", "hocket"])
    parser.add_argument("--kind", default="gpt")
    parser.add_argument("--size", default="small")
    parser.add_argument("--batch", type=int)
    parser.add_argument("--device-ms", type=float, default=0)
    parser.add_argument("--logs", action="store_true")
    parser.add_argument("--name")
    parser.add_argument("--weight", type=float)
    parser.add_argument("--priority")
    return parser.parse_args()


def numbers(
    request: dict[str, Any], away: Callable[[], AbstractContextManager[Any]], pauses: list[float]
) -> Iterator[int]:
    """The steps of a block; what passes between two of them is the loading pause, spent as in wait for a worker.

    ``pauses`` gets the seconds of each.
    """
    begin, gap = time.perf_counter(), request.get("gap_ms", 0) / 1e3
    for i in range(request["steps"]) if "steps" in request else itertools.count():
        if gap:
            paused = time.perf_counter()
            with away():
                time.sleep(gap)  # the pause is what is measured; nobody synchronises by it
            pauses.append(time.perf_counter() - paused)
        if i > 0 and "seconds" in request and time.perf_counter() - begin >= request["seconds"]:
            return
        yield i


def main() -> None:
    options = parse()
    counter = Instructions()  # before threads start, so that they inherit it
    if options.mode == "hocket":
        import hocket

        hocket.join(name=options.name, weight=options.weight, priority=options.priority)
    import torch

    from tests.bench import harness, jobs

    torch.set_num_threads(1)
    job = jobs.make(options.kind, options.size, options.batch)
    held = []
    batches = [job.batch(i) for i in range(4)]
    job.batch = lambda i: batches[i % 4]  # loading is what gap_ms says
    cycles = int(options.device_ms * 1e-3 * getattr(torch.cuda.get_device_properties(0), "clock_rate", KHZ) * 1e3)

    away = hocket.away if options.mode == "hocket" else contextlib.nullcontext

    def steps(request: dict[str, Any], pauses: list[float]) -> Iterable[int]:
        indices = numbers(request, away, pauses)
        return hocket.steps(indices) if options.mode == "hocket" else indices

    def next_line() -> str:
        with away():
            return sys.stdin.readline()

    job.step(0)
    torch.cuda.synchronize()
    harness.in_real_time()
    while line := next_line():
        request = json.loads(line)
        if "hold" in request:
            held.append(torch.empty(request["hold"], dtype=torch.uint8, device="cuda"))
            print(json.dumps({"holds": sum(each.nbytes for each in held)}), flush=True)
            continue
        before, wall, cpu = counter.read(), time.perf_counter(), time.process_time()
        count, pauses = 0, []
        for i in steps(request, pauses):
            loss = job.step(i)
            if cycles:
                torch.cuda._sleep(cycles)
            if cycles or options.logs:
                loss.item()
            count += 1
        torch.cuda.synchronize()
        ended = time.perf_counter()
        answer = {"steps": count, "wall": ended - wall, "cpu": time.process_time() - cpu, "ended": ended}
        answer["paused"] = sum(pauses)
        after = counter.read()
        if before is not None and after is not None:
            answer["instructions"] = after - before
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
