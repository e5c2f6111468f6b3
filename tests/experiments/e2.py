"""E2: real arrivals of single-GPU jobs on one node: FIFO, and SRTF that is told sizes right, wrong, or not at all."""

from __future__ import annotations

import dataclasses
import heapq
import math
import random
import statistics
from collections.abc import Callable
from typing import Any

from tests.experiments.simulation import GIB, Context, Goal, Job, Report, Result, measured_hand_over_ms

TRACES = {"b436b2": 2, "cluster10": 2, "cluster01": 8}  # devices
STEP_MS = 100
COMPUTED = "computed from the same trace, without any cost"
MULTI_LEVEL = "a plain multi-level queue, " + COMPUTED
LEVELS_S = (600, 3600, 14_400)  # of that queue: what a job has had; first come, first served inside
Key = Callable[["Ideal"], tuple[float, ...]]


@dataclasses.dataclass
class Ideal:
    """A job of the ideal: no steps, no cost, any device at any moment."""

    arrival: float
    size: float
    had: float = 0.0

    @property
    def level(self) -> int:
        return sum(self.had >= level - 1e-6 for level in LEVELS_S)

    def until_change(self) -> float:
        """How long it runs until it is done, or steps down a level."""
        return min([self.size, *LEVELS_S[self.level : self.level + 1]]) - self.had


IDEALS: dict[str, Key] = {
    "FIFO": lambda job: (job.arrival,),
    "SRTF": lambda job: (job.size - job.had, job.arrival),
    "multi-level": lambda job: (job.level, job.arrival),
}


def ideal(jobs: list[Job], devices: int, key: Key) -> float:
    """The mean completion time where at each moment the first ``devices`` jobs by ``key`` run."""
    coming = sorted((job["arrival_s"], job["steps"] * job["step_ms"] / 1e3) for job in jobs)[::-1]
    now, total = 0.0, 0.0
    active: list[Ideal] = []
    while coming or active:
        runs = heapq.nsmallest(devices, active, key=key)
        arrival = coming[-1][0] if coming else math.inf
        then = min([arrival, *(now + job.until_change() for job in runs)])
        for job in runs:
            job.had += then - now
        now = then
        for job in [job for job in runs if job.had >= job.size - 1e-6]:
            active.remove(job)
            total += now - job.arrival
        while coming and coming[-1][0] <= now:
            active.append(Ideal(*coming.pop()))
    return total / len(jobs)


def arrivals(context: Context, trace: str) -> list[Job]:
    if trace == "b436b2":
        rows = context.rows("gavel/trace_philly_b436b2_1gpu.csv")
        times = [(row["arrival_s"], row["duration_v100_s"]) for row in rows]
    else:
        rows = context.rows(f"microsoft-itp/{trace}.csv")
        times = [(row["submission_time"], row["duration"]) for row in rows if row["num_gpu"] == "1"]
    return [
        {
            "name": str(i),
            "arrival_s": float(arrival),
            "steps": max(1, round(float(duration) * 1e3 / STEP_MS)),
            "step_ms": STEP_MS,
            "persistent": 4 * GIB,
        }
        for i, (arrival, duration) in enumerate(times)
    ]


def wrong(jobs: list[Job], seed: int) -> list[Job]:
    """Told a size that is off by up to a half, either way."""
    draw = random.Random(seed)
    return [{**job, "told_steps": max(1, round(job["steps"] * draw.uniform(0.5, 1.5)))} for job in jobs]


def _row(trace: str, name: str, hand_over: float, report: Report, ideal: float, fifo: float) -> dict[str, Any]:
    return {
        "trace": trace,
        "GPUs": TRACES[trace],
        "policy": name,
        "hand-over, ms": hand_over,
        "mean, s": report["mean_jct_s"],
        "median, s": report["median_jct_s"],
        "p95, s": report["p95_jct_s"],
        "p99, s": report["p99_jct_s"],
        "queue, s": report["mean_queue_s"],
        "slowdown": report["mean_slowdown"],
        "busy": report["busy"],
        "turns a minute": report["turns"] / report["makespan_s"] * 60,
        "mean over ideal": report["mean_jct_s"] / ideal,
        "mean over FIFO": report["mean_jct_s"] / fifo,
    }


def run(context: Context) -> Result:
    cost, said = measured_hand_over_ms()
    rows: list[dict[str, Any]] = []
    goals: list[Goal] = []
    for trace, devices in list(TRACES.items())[1:2] if context.quick else TRACES.items():
        jobs = arrivals(context, trace)
        unknown = [{**job, "told_steps": 0} for job in jobs]
        flags = {"devices": devices, "memory": 40 * GIB}
        fifo = context.simulate(jobs, "queue", hand_over_ms=cost, **flags)
        means = {name: ideal(jobs, devices, key) for name, key in IDEALS.items()}

        def row(name: str, hand_over: float, report: Report, over: float) -> dict[str, Any]:
            return _row(trace, name, hand_over, report, over, fifo["mean_jct_s"])  # noqa: B023

        rows.append(row("FIFO", cost, fifo, means["FIFO"]))
        for hand_over in (0.0, cost, 10 * cost):
            report = context.simulate(jobs, "srtf", hand_over_ms=hand_over, **flags)
            rows.append(row("SRTF", hand_over, report, means["SRTF"]))
            if hand_over == cost:
                over = report["mean_jct_s"] / means["SRTF"]
                goals.append(Goal(f"{trace}: SRTF's mean over ideal SRTF's", over, 1.02, COMPUTED))
        over_fifo = []
        for seed in range(1 if context.quick else 5):
            report = context.simulate(wrong(jobs, seed), "srtf", hand_over_ms=cost, **flags)
            rows.append(row(f"SRTF, sizes +-50 %, seed {seed}", cost, report, means["SRTF"]))
            over_fifo.append(report["mean_jct_s"] / fifo["mean_jct_s"])
        if trace != "b436b2":
            text = f"{trace}: SRTF's mean over FIFO's, sizes +-50 %, median of the seeds"
            goals.append(Goal(text, statistics.median(over_fifo), 0.65, "set for this experiment"))
        report = context.simulate(unknown, "srtf", hand_over_ms=cost, **flags)
        rows.append(row("SRTF, told nothing", cost, report, means["SRTF"]))
        over = report["mean_jct_s"] / fifo["mean_jct_s"]
        goals.append(
            Goal(f"{trace}: told nothing, mean over FIFO's", over, means["multi-level"] / means["FIFO"], MULTI_LEVEL)
        )
        if trace == "cluster10":
            text = "cluster10: told nothing, slowdown over FIFO's"
            goals.append(Goal(text, report["mean_slowdown"] / fifo["mean_slowdown"], 1.0, "set for this experiment"))
    return Result(
        model=(
            "The single-GPU jobs of three public traces (Gavel's b436b2, from Philly; Microsoft's cluster10 and "
            f"cluster01 of 2021) with their arrivals. Steps of {STEP_MS} ms, 4 GiB a job on 40 GiB, moved at 20 GB/s "
            f"where it does not fit. A hand-over that moves nothing costs nothing, {said}, or ten times that. A job of "
            "known size waits for the device where it runs at once and stays there; others are placed as they come, "
            "where the fewest are that have had less than four hours. "
            "*Ideal*: one queue for all devices, no cost. No interference, steady step times."
        ),
        rows=rows,
        goals=goals,
        reading=(
            "Told nothing, `srtf` is a multi-level queue, of more levels than the one that it is compared with. The "
            "levels make no difference (the ideal of its own comes to the same within 0.1 %); but that ideal is one "
            "queue for all devices, while a played job of unknown size gets a place as it comes and stays there."
        ),
        draw=lambda figure: _draw(figure, rows),
    )


def _draw(figure: Any, rows: list[dict[str, Any]]) -> None:
    axes = figure.subplots(1, len(TRACES))
    for axis, trace in zip(axes, TRACES, strict=True):
        shown = [row for row in rows if row["trace"] == trace and "seed" not in row["policy"]]
        names = [f"{row['policy']}, {row['hand-over, ms']:.2g} ms" for row in shown]
        axis.barh(names, [row["mean, s"] / 3600 for row in shown])
        axis.set(xlabel="mean completion time (h)", title=f"E2: {trace}, {TRACES[trace]} GPUs")
        axis.tick_params(axis="y", labelsize=7)
