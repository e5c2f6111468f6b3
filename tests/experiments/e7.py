"""E7: more memory asked for than a GPU has: what moving it costs, against letting jobs wait until they fit."""

from __future__ import annotations

import statistics
from typing import Any

from tests.experiments import e1
from tests.experiments.simulation import GIB, Context, Goal, Job, Report, Result, measured_hand_over_ms

JOBS = 8
OVERCOMMIT = (0.5, 0.8, 1.0, 1.25, 1.5, 2.0)  # sum of what the jobs hold over the device's memory
POLICIES = ("fair", "srtf")
PAIR = 9 * GIB  # held by each job of a pair that does not fit 16 GiB
SET_HERE = "set for this experiment"


def together(context: Context, seed: int) -> list[Job]:
    """Jobs that all hold their peak until they end, started up: memory alone makes the difference."""
    return [{**job, "startup_s": 0} for job in e1.batch(context, seed)[:JOBS]]


def sweep(context: Context, policy: str, cost: float, seeds: int) -> list[dict[str, Any]]:
    rows = []
    for overcommit in OVERCOMMIT:
        runs: list[tuple[Report, Report, Report, int]] = []
        for seed in range(seeds):
            jobs = together(context, seed)
            held = sum(job["persistent"] for job in jobs)
            memory = int(held / overcommit)
            if memory < max(job["persistent"] for job in jobs):
                continue  # a job that does not fit by itself has no baseline
            ours = context.simulate(jobs, policy, memory=memory, hand_over_ms=cost)
            waits = context.simulate(jobs, "fair", memory=memory, plain=True)
            enough = context.simulate(jobs, policy, memory=2 * held, hand_over_ms=cost)
            runs.append((ours, waits, enough, memory))
        rows.append(_row(policy, overcommit, runs))
    return rows


def _row(policy: str, overcommit: float, runs: list[tuple[Report, Report, Report, int]]) -> dict[str, Any]:
    def over(key: str, other: int) -> float:
        return statistics.median(run[0][key] / run[other][key] for run in runs)

    return {
        "what": f"{JOBS} jobs of Salus's",
        "policy": policy,
        "overcommit": overcommit,
        "runs": len(runs),
        "lost": sum(JOBS - ours["jobs"] for ours, _, _, _ in runs),
        "peak over memory, most": max(ours["peak"] / memory for ours, _, _, memory in runs),
        "moved, GB": statistics.median(ours["moved"] / 1e9 for ours, _, _, _ in runs),
        "makespan over enough memory": over("makespan_s", 2),
        "mean over enough memory": over("mean_jct_s", 2),
        "mean over waiting until it fits": over("mean_jct_s", 1),
    }


def pairs(context: Context, cost: float) -> dict[str, Any]:
    """Gavel's pairs that did not fit a V100."""
    speeds = {
        row["job_type"]: float(row["steps_per_s"])
        for row in context.rows("gavel/isolated_motivation.csv")
        if row["gpu"] == "v100"
    }
    unfit = [
        row
        for row in context.rows("gavel/pairs_motivation.csv")
        if row["gpu"] == "v100" and float(row["steps_per_s_a"]) == 0 == float(row["steps_per_s_b"])
    ]
    runs = []
    for row in unfit:
        jobs = []
        for kind in (row["job_type_a"], row["job_type_b"]):
            jobs.append(
                {
                    "name": f"{len(jobs)}",
                    "steps": max(1, round(600 * speeds[kind])),
                    "step_ms": 1e3 / speeds[kind],
                    "persistent": PAIR,
                }
            )
        ours, queue = (
            context.simulate(jobs, policy, memory=16 * GIB, hand_over_ms=cost) for policy in ("fair", "queue")
        )
        runs.append((ours, queue))
    return {
        "what": f"{len(unfit)} pairs of Gavel's that did not fit, 10 min of steps each, {PAIR / GIB:g} GiB a job of 16",
        "policy": "fair",
        "overcommit": 2 * PAIR / (16 * GIB),
        "runs": len(unfit),
        "lost": sum(2 - ours["jobs"] for ours, _ in runs),
        "peak over memory, most": max(ours["peak"] / (16 * GIB) for ours, _ in runs),
        "moved, GB": statistics.median(ours["moved"] / 1e9 for ours, _ in runs),
        "makespan over enough memory": max(ours["makespan_s"] / queue["makespan_s"] for ours, queue in runs),
        "mean over enough memory": "",
        "mean over waiting until it fits": "",
    }


def run(context: Context) -> Result:
    cost, said = measured_hand_over_ms()
    rows = [row for policy in POLICIES for row in sweep(context, policy, cost, 2 if context.quick else 20)]
    enough = max(row["mean over enough memory"] for row in rows if row["overcommit"] <= 1)
    at_most = {row["policy"]: row["mean over waiting until it fits"] for row in rows if row["overcommit"] == 1.25}
    rows.append(pairs(context, cost))
    return Result(
        model=(
            f"The first {JOBS} jobs of E1's batch of each seed, at once, started up, each holding its peak until it "
            "ends (nothing of it is transient: the worst case), on a device whose memory is their sum over "
            "*overcommit*. *Waiting until it fits*: jobs without Hocket in the order of arrival, those "
            "that fit side by side, equal device time. Seeds in which a job does not fit by itself are left out. Bytes "
            "move at 20 GB/s each way (the simulator's default, not a measurement); a hand-over that moves nothing "
            f"costs {said}. The pairs: Gavel's files say that they did not fit, not what they hold; *makespan over "
            "enough memory* is there over one after the other, of the worst pair."
        ),
        rows=rows,
        goals=[
            Goal("jobs lost", sum(row["lost"] for row in rows), 0, SET_HERE),
            Goal("the device's peak over its memory", max(row["peak over memory, most"] for row in rows), 1, SET_HERE),
            Goal("no overcommit: mean over that with enough memory", enough, 1.01, SET_HERE),
            *(
                Goal(f"1.25 times overcommitted, {policy}: mean over waiting until it fits", figure, 1, SET_HERE)
                for policy, figure in at_most.items()
            ),
        ],
        reading=(
            "Under `fair` the first goal at 1.25 is a near tie: what moving costs is in *mean over enough memory*; "
            "the rest is that equal shares for all finish jobs later, on average, than equal shares for those that "
            "fit while the last ones wait. Where more has to wait, sharing with moves is the better one."
        ),
        draw=lambda figure: _draw(figure, rows[:-1]),
    )


def _draw(figure: Any, rows: list[dict[str, Any]]) -> None:
    axes = figure.subplots(1, len(POLICIES))
    for axis, policy in zip(axes, POLICIES, strict=True):
        shown = [row for row in rows if row["policy"] == policy]
        for key in ("mean over enough memory", "makespan over enough memory", "mean over waiting until it fits"):
            axis.plot([row["overcommit"] for row in shown], [row[key] for row in shown], marker=".", label=key)
        axis.axhline(1, color="grey", linestyle=":")
        axis.set(xlabel="memory asked for over the device's", ylabel="ratio", title=f"E7: {policy}")
        axis.legend(fontsize=7)
