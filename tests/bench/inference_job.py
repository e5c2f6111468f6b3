"""A worker of ``inference``: trains, or answers requests; see harness.Worker.

    inference_job.py train|serve plain|hocket [--name NAME] [--layers N] [--batch N]

``train`` trains a GPT (float32, AdamW) of some 150 ms of an H200's time a step, or, with fewer layers and a smaller
batch, less; the next step is queued before the last is waited for, as in a loop that does not look at its loss.
Requests:

    {"at": T, "seconds": S}    trains until S seconds after T (of the monotonic clock): the steps from T on, the one at
                               either end in part
    {"yields": N}              the device's time between its yield points: see ``yields()``

``serve`` answers requests of a few ms of device time, one at a time, in the order in which they arrive. Requests:

    {"at": T, "arrivals": [..]}  one request each so many seconds after T: milliseconds from each one's arrival to its
                                 answer, the wait for those before it included
    {"device_ms": N}             the device's time for a request, of N in one go

Both answer ``{"ready": true}`` when they are.
"""

from __future__ import annotations

import argparse
import bisect
import contextlib
import itertools
import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch.nn import functional
from torch.utils._python_dispatch import TorchDispatchMode

from tests.bench import harness, jobs
from tests.bench.workload import KHZ

Answer = dict[str, Any]


def whole_and_part(ends: Sequence[float], begin: float, end: float) -> float:
    """How many steps lie between two times, of those that ended at ``ends``; the one at either end in part."""
    if not ends[0] <= begin < end <= ends[-1]:
        raise ValueError(
            f"steps ended from {ends[0]:.3f} to {ends[-1]:.3f}, and {begin:.3f} to {end:.3f} was asked for"
        )

    def until(time: float) -> float:
        i = bisect.bisect_left(ends, time, 1)
        return i - 1 + (time - ends[i - 1]) / (ends[i] - ends[i - 1])

    return until(end) - until(begin)


def occupy(seconds: float) -> None:
    """Gives the device nothing else to do for so long, so that what is queued meanwhile runs without a pause."""
    khz = getattr(torch.cuda.get_device_properties(0), "clock_rate", KHZ)
    for _ in range(max(1, round(seconds / 0.1))):
        torch.cuda._sleep(int(0.1 * khz * 1e3))


class Training:
    VOCABULARY, LENGTH, WIDTH, HEADS = 50304, 512, 1024, 16

    def __init__(self, layers: int = 24, batch: int = 8) -> None:
        with torch.device("cuda"):
            self.model = jobs.Transformer(self.VOCABULARY, self.LENGTH, self.WIDTH, self.HEADS, layers, causal=True)
            self.text = torch.randint(0, self.VOCABULARY, (batch, self.LENGTH + 1))
        self.optimizer = torch.optim.AdamW(self.model.parameters(), 3e-4)

    def step(self) -> None:
        out = self.model(self.text[:, :-1])
        functional.cross_entropy(out.flatten(0, 1), self.text[:, 1:].flatten()).backward()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)

    def block(self, steps: Callable[[Iterator[int]], Any], at: float, seconds: float) -> Answer:
        ends: list[float] = []
        queued: list[torch.cuda.Event] = []

        def until_then() -> Iterator[int]:
            for i in itertools.count():
                if ends and ends[-1] >= max(at, ends[0]) + seconds:
                    return
                yield i

        for _ in steps(until_then()):
            self.step()
            queued.append(torch.cuda.Event(blocking=True))
            queued[-1].record()
            if len(queued) > 1:
                queued.pop(0).synchronize()
                ends.append(time.perf_counter())
        torch.cuda.synchronize()
        begin = max(at, ends[0])  # it may have been kept from beginning in time
        return {"steps": whole_and_part(ends, begin, begin + seconds), "seconds": seconds}

    def yields(self, passes: int) -> Answer:
        """The device's time between two places where the program could be held up, in milliseconds.

        Those are its allocations on the device, and the ends of its steps. An event is recorded before each operator,
        the optimizer's and the backward's too; those before operators that allocated count. The device has another
        task until the step is queued, so the time between two events is that of what lies between them. Where the host
        falls behind all the same the device waits, and a pass says too much: the least of several is told.
        """
        begun = time.perf_counter()
        with Yields() as yields:
            self.step()
        queueing = time.perf_counter() - begun
        found = []
        for _ in range(passes):
            torch.cuda.synchronize()
            occupy(2 * queueing)
            with Yields() as yields:
                self.step()
            found.append(yields.between())
        return {
            "longest_ms": min(max(each) for each in found),
            "step_ms": min(sum(each) for each in found),
            "yields": len(found[0]),
        }


class Yields(TorchDispatchMode):
    """The events before operators that allocate."""

    def __init__(self) -> None:
        super().__init__()
        self._events: list[torch.cuda.Event] = []
        self._allocated = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        event = self._record()
        result = func(*args, **(kwargs or {}))
        allocated = self._count()
        if allocated != self._allocated:
            self._allocated = allocated
            self._events.append(event)
        return result

    def __enter__(self) -> Yields:
        self._allocated = self._count()
        self._events.append(self._record())
        return super().__enter__()

    def __exit__(self, *what: Any) -> None:
        super().__exit__(*what)
        self._events.append(self._record())

    def between(self) -> list[float]:
        torch.cuda.synchronize()
        return [one.elapsed_time(other) for one, other in itertools.pairwise(self._events)]

    @staticmethod
    def _record() -> torch.cuda.Event:
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    @staticmethod
    def _count() -> int:
        return torch._C._cuda_memoryStats(0)["allocation"]["all"]["allocated"]


class Serving:
    VOCABULARY, LENGTH, WIDTH, HEADS, LAYERS, BATCH = 8192, 128, 1024, 16, 6, 16

    def __init__(self) -> None:
        with torch.device("cuda"):
            self.model = jobs.Transformer(
                self.VOCABULARY, self.LENGTH, self.WIDTH, self.HEADS, self.LAYERS, causal=False
            ).eval()
        self.tokens = torch.randint(0, self.VOCABULARY, (self.BATCH, self.LENGTH)).pin_memory()

    def answer(self) -> torch.Tensor:
        """Of a request whose tokens lie on the host; on the device until somebody looks."""
        with torch.no_grad():
            return self.model.layers(self.model.tokens(self.tokens.cuda(non_blocking=True))).mean((1, 2))

    def block(self, step: Callable[[], Any], at: float, arrivals: Sequence[float]) -> Answer:
        took = []
        for arrival in arrivals:
            early = at + arrival - time.perf_counter()
            if early > 0:
                time.sleep(early)  # the arrival is what is played here; nobody synchronises by it
            with step():
                self.answer().cpu()
            took.append(1e3 * (time.perf_counter() - at - arrival))
        return {"latencies_ms": took}

    def device_ms(self, count: int) -> Answer:
        first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        occupy(0.3)
        first.record()
        for _ in range(count):
            self.answer()
        last.record()
        torch.cuda.synchronize()
        return {"device_ms": first.elapsed_time(last) / count}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=["train", "serve"])
    parser.add_argument("mode", choices=["plain", "hocket"])
    parser.add_argument("--name")
    parser.add_argument("--layers", type=int, default=24)
    parser.add_argument("--batch", type=int, default=8)
    options = parser.parse_args()
    managed = options.mode == "hocket"
    if managed:
        import hocket

        hocket.join(name=options.name, serves=options.what == "serve")
    torch.set_num_threads(1)
    step = hocket.step if managed else contextlib.nullcontext
    job = Training(options.layers, options.batch) if options.what == "train" else Serving()
    for _ in range(3):
        with step():
            job.step() if isinstance(job, Training) else job.answer()
    torch.cuda.synchronize()
    harness.in_real_time()

    def next_line() -> str:
        with hocket.away() if managed else contextlib.nullcontext():
            return sys.stdin.readline()

    while line := next_line():
        request = json.loads(line)
        if "arrivals" in request:
            answer = job.block(step, **request)
        elif "seconds" in request:
            answer = job.block(hocket.steps if managed else iter, **request)
        elif "yields" in request:
            answer = job.yields(request["yields"])
        elif "device_ms" in request:
            answer = job.device_ms(request["device_ms"])
        else:
            answer = request
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
