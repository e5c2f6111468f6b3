"""An inference server beside a training: how long requests take, and what the training gets.

Requests arrive as in a public trace (``orion/inter_arrival_s.csv`` of ``--workloads``), stretched or compressed so that
they need LOAD of the device's time, and whether the server is ready or not: one that arrives while another is answered
waits, and that counts. A repetition plays a stretch of the trace of its own to the server alone, beside the training
under Hocket (``hocket.join(serves=True)``), and beside it without Hocket: the driver slices time between them. The
training also runs alone.

Slicing on the emulated GPU is idealized: slices of 2 ms in turn, a switch between two processes costs nothing, and
whoever has nothing to do loses none of them.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import pathlib
import statistics
import sys
import time
from collections.abc import Sequence
from typing import Any

from tests.bench import harness, sizes
from tests.bench.sizes import CONTEXT, GIB, MIB

TRACE = "orion/inter_arrival_s.csv"
LOAD = 0.25  # of the device's time, for the requests
LEAD = 1.5  # seconds that the training runs before the first request
MEMORY = "72GiB"
MODES = ("hocket", "plain")
# Trainings (layers, batch) and what torch reserves for each, the largest first: the usual one, and those for smaller
# cards.
TRAININGS = {(24, 8): 13_900 * MIB, (12, 4): 6_000 * MIB, (6, 2): 2_900 * MIB, (3, 1): 1_900 * MIB}
USUAL = (24, 8)
SERVER = 512 * MIB  # what torch reserves for one


def training_that_fits(free: int) -> tuple[int, int]:
    """Layers and batch: one under Hocket and one without are there all the time, and a server of each kind."""

    def needs(training: tuple[int, int]) -> int:
        return 2 * (TRAININGS[training] + SERVER) + 4 * CONTEXT

    chosen = next((training for training in TRAININGS if needs(training) <= free), None)
    if chosen is None:
        least = needs(min(TRAININGS))
        raise harness.NotRun(f"two trainings and two servers need {least / GIB:.1f} GiB; {free / GIB:.1f} are free")
    if chosen != USUAL:
        taken, usual = (f"{layers} layers and a batch of {batch}" for layers, batch in (chosen, USUAL))
        print(f"inference: {free / GIB:.1f} GiB of the device are free: a training of {taken} instead of {usual}")
    return chosen


def percentile(samples: Sequence[float], percent: float) -> float:
    """The smallest sample that is no less than so many percent of all."""
    return sorted(samples)[max(0, math.ceil(len(samples) * percent / 100) - 1)]


def bound(alone_ms: float, longest_gap_ms: float) -> float:
    """What a request may take beside a training, where it takes ``alone_ms`` alone: half as long again, or the wait for
    the longest gap between two places where the training can be held up and a fifth of that, whichever is more."""
    return max(1.5 * alone_ms, alone_ms + 1.2 * longest_gap_ms)


def gets(beside: float, alone: float, needed: float) -> float:
    """What a training that does so much beside requests and so much alone gets of what those leave it, where they need
    ``needed`` of the device."""
    return beside / alone / (1 - needed)


def stretched(gaps: Sequence[float], device_ms: float, load: float) -> list[float]:
    """The gaps between requests, all by one factor, so that requests of ``device_ms`` need ``load`` of the time."""
    factor = device_ms / 1e3 / load / statistics.fmean(gaps)
    return [gap * factor for gap in gaps]


def windows(gaps: Sequence[float], seconds: float, count: int) -> list[list[float]]:
    """Arrivals in ``count`` windows of so many seconds, one after the other; the trace begins anew where it ends."""
    found: list[list[float]] = [[] for _ in range(count)]
    at = 0.0
    for gap in itertools.cycle(gaps):
        at += gap
        if at >= seconds * count:
            return found
        found[int(at / seconds)].append(at % seconds)
    return found


class Workers:
    """A server and a training, each as a worker under Hocket and as one without."""

    def __init__(self, stack: contextlib.ExitStack, folder: str, training: tuple[int, int]) -> None:
        self.environment = {"HOCKET_RUNTIME_DIR": folder}

        def worker(what: str, mode: str) -> harness.Worker:
            program = [sys.executable, "-m", "tests.bench.inference_job", what, mode, "--name", what]
            program += ["--layers", str(training[0]), "--batch", str(training[1])]
            command = harness.emulate(f"bench-inference-{mode}", MEMORY, program, timing=True)
            log = pathlib.Path(folder) / f"{mode}-{what}.log"
            return stack.enter_context(harness.Worker(command, self.environment, log))

        self.train = {mode: worker("train", mode) for mode in MODES}
        self.serve = {mode: worker("serve", mode) for mode in MODES}

    def trains(self, mode: str, seconds: float) -> dict[str, Any]:
        return self.train[mode].ask(at=time.perf_counter() + LEAD, seconds=seconds)

    def serves(self, mode: str, arrivals: Sequence[float]) -> list[float]:
        return self.serve[mode].ask(at=time.perf_counter() + 0.1, arrivals=arrivals)["latencies_ms"]

    def both(self, mode: str, arrivals: Sequence[float], seconds: float) -> tuple[list[float], dict[str, Any]]:
        at = time.perf_counter() + LEAD
        self.train[mode].begin(at=at, seconds=seconds)
        self.serve[mode].begin(at=at, arrivals=arrivals)
        return self.serve[mode].end()["latencies_ms"], self.train[mode].end()


def _rate(training: dict[str, Any]) -> float:
    return training["steps"] / training["seconds"]


def _measure(workers: Workers, trace: Sequence[float], seconds: float, repeats: int) -> dict[str, Any]:
    device_ms = statistics.median(workers.serve["plain"].ask(device_ms=50)["device_ms"] for _ in range(3))
    yields = workers.train["plain"].ask(yields=3)
    gaps = stretched(trace, device_ms, LOAD)
    blocks = []
    workers.both("hocket", windows(gaps, seconds, 1)[0], seconds)  # everybody learns
    for number, arrivals in enumerate(windows(gaps, seconds, repeats)):
        block: dict[str, Any] = {"needed": len(arrivals) * device_ms / 1e3 / seconds}
        parts = ["alone", "hocket", "plain", "training"]
        for part in parts if number % 2 == 0 else reversed(parts):
            if part == "alone":
                latencies = workers.serves("plain", arrivals)
            elif part == "training":
                block["training_alone"] = _rate(workers.trains("plain", seconds / 2))
                continue
            else:
                latencies, training = workers.both(part, arrivals, seconds)
                block[f"training_{part}"] = _rate(training)
            block[part] = [round(latency, 3) for latency in latencies]
        blocks.append(block)
    with harness.reasons(workers.environment) as said:  # once more, not counted
        workers.both("hocket", arrivals, seconds)
    return {
        "request_device_ms": device_ms,
        "trace_stretched_by": statistics.fmean(gaps) / statistics.fmean(trace),
        "training_yields": yields,
        "what the coordinator said meanwhile": dict(said.most_common(6)),
        "blocks": blocks,
    }


def figures_of(found: dict[str, Any], drawn: bool = False, training: tuple[int, int] = USUAL) -> list[harness.Figure]:
    """``drawn``: arrivals that are of no trace; they and other trainings are rows of their own."""
    blocks, longest = found["blocks"], found["training_yields"]["longest_ms"]
    idealized = ", emulated: idealized" if harness.PLACE.emulated else ""
    made = []
    end, more = ("_drawn", ", arrivals drawn") if drawn else ("", "")
    if training != USUAL:
        end, more = f"{end}_{training[0]}_layers", f"{more} (of {training[0]} layers, a batch of {training[1]})"
    for mode, name, said in (
        ("hocket", "inference", "beside a training"),
        ("plain", "inference_sliced", f"the same, plain torch (the driver's time-slicing{idealized})"),
    ):
        late = [percentile(b[mode], 99) / bound(percentile(b["alone"], 99), longest) for b in blocks]
        share = [gets(b[f"training_{mode}"], b["training_alone"], b["needed"]) for b in blocks]
        text = f"p99 of requests that need {LOAD:.0%} of the device, {said}"
        base = "the larger of 1.5 x p99 alone and p99 alone + 1.2 x the training's longest gap between yield points"
        made.append(harness.figure(f"{name}_p99{end}", text + more, late, 1.0, base))
        text = "what the training gets beside such requests" if mode == "hocket" else f"what the training gets, {said}"
        base = "its throughput alone x the share of the device that the requests leave"
        made.append(harness.figure(f"{name}_training{end}", text + more, share, 0.9, base, at_least=True))
    return made


def table_of(found: dict[str, Any]) -> dict[str, Any]:
    """Medians over the repetitions, in milliseconds."""
    yields = found["training_yields"]
    rows = []
    for part, what in (("alone", "alone"), ("hocket", "under Hocket"), ("plain", "sliced by the driver")):
        p50, p99 = (statistics.median(percentile(b[part], p) for b in found["blocks"]) for p in (50, 99))
        rate = statistics.median(
            b[f"training_{part}" if part != "alone" else "training_alone"] for b in found["blocks"]
        )
        rows.append([what, f"{p50:.1f}", f"{p99:.1f}", f"{rate:.2f}"])
    return {
        "title": f"Requests of {found['request_device_ms']:.1f} ms of device time beside a training with steps of "
        f"{yields['step_ms']:.0f} ms, at most {yields['longest_ms']:.1f} ms between two of the {yields['yields']} "
        f"yield points (allocations) of each ({'emulated' if harness.PLACE.emulated else harness.device_name()})",
        "columns": ["requests and training", "p50, ms", "p99, ms", "training's steps/s"],
        "rows": rows,
    }


def run(quick: bool) -> None:
    lines = harness.workload(TRACE).read_text().splitlines()
    trace = [float(line) for line in lines[1:]]
    seconds, repeats = harness.extent(quick, usual=(12.0, 7), brief=(3.0, 5), least=(1.0, 2))
    drawn = lines[0].endswith("drawn")  # scripts/gpu-check, where nobody gave it a trace
    with harness.runtime_folder() as folder, contextlib.ExitStack() as stack:
        training = training_that_fits(sizes.free("bench-inference-hocket", MEMORY))
        workers = Workers(stack, folder, training)
        for worker in (*workers.train.values(), *workers.serve.values()):
            worker.ask(ready=True)
        harness.coordinator_in_real_time(workers.environment)  # as its jobs are: other work would come before it
        found = _measure(workers, trace, seconds, repeats)
    found["arrivals"] = "drawn, exponential gaps" if drawn else TRACE
    figures = figures_of(found, drawn, training)
    harness.record("inference", figures, extra={**found, "tables": [table_of(found)]})
