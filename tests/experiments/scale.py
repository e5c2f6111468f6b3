"""How long it takes to simulate 100,000 jobs on 1,000 GPUs."""

from __future__ import annotations

import random
import time

from tests.experiments.simulation import GIB, Context, Goal, Result

JOBS, DEVICES = 100_000, 1_000


def run(context: Context) -> Result:
    draw = random.Random(0)
    jobs = [
        {
            "name": str(i),
            "arrival_s": round(draw.uniform(0, 80_000)),
            "steps": 1 + int(draw.lognormvariate(8, 1.5)),
            "step_ms": 200,
            "persistent": 4 * GIB,
        }
        for i in range(1_000 if context.quick else JOBS)
    ]
    rows, goals = [], []
    for policy in ("queue", "srtf"):
        began = time.monotonic()
        report = context.simulate(jobs, policy, devices=DEVICES, hand_over_ms=1)
        took = time.monotonic() - began
        rows.append(
            {
                "policy": policy,
                "jobs": len(jobs),
                "GPUs": DEVICES,
                "seconds to simulate": took,
                "turns": report["turns"],
                "busy": report["busy"],
            }
        )
        goals.append(
            Goal(
                f"{policy}: seconds to simulate {len(jobs):,} jobs on {DEVICES:,} GPUs",
                took,
                60,
                "set for this simulator",
                False,
            )
        )
    return Result(
        model="Invented jobs: arrivals even over 80,000 s, log-normal sizes, steps of 200 ms, 4 GiB of 16 GiB.",
        rows=rows,
        goals=goals,
    )
