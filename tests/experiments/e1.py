"""E1: 100 jobs at once on one GPU of 16 GB, under the four policies of Salus (MLSys 2020)."""

from __future__ import annotations

import random
import statistics
from typing import Any

from tests.experiments.simulation import GIB, MIB, Context, Goal, Job, Result, measured_hand_over_ms, tenths

JOBS = 100
WORK_S = 303.4 * 60  # of all jobs together
CORES = 8  # jobs that start up at once
PERSISTENT = 0.2  # of the peak
SET_HERE = "set for this experiment"


def batch(context: Context, seed: int) -> list[Job]:
    """Run times of Philly's between 1 min and 12 h, scaled to ``WORK_S`` in all; of each a model of Salus's."""
    draw = random.Random(seed)
    rows = context.rows("alibaba-pai/philly_runtime_s_every8th_sorted.csv")
    runtimes = [time for time in (float(row["runtime_s"]) for row in rows) if 60 <= time <= 43_200]
    models = context.rows("salus/iteration_profile.csv")
    drawn = [draw.choice(runtimes) for _ in range(JOBS)]
    scale = WORK_S / sum(drawn)
    jobs = []
    for i, runtime in enumerate(drawn):
        model = draw.choice(models)
        step = float(model["iteration_ms"])
        jobs.append(
            {
                "name": f"{i}-{model['model']}",
                "steps": max(1, round(runtime * scale * 1e3 / step)),
                "step_ms": step,
                "startup_s": float(model["startup_s"]),
                "persistent": int(float(model["peak_mem_mib"]) * MIB),
            }
        )
    return jobs


def ideal(jobs: list[Job]) -> dict[str, float]:
    """Mean completion times, seconds, without any cost of switching and without start-ups.

    Of a batch, processor sharing takes twice what SRTF takes, less the mean size.
    """
    sizes = [job["steps"] * job["step_ms"] / 1e3 for job in jobs]

    def one_by_one(order: list[float]) -> float:
        now, total = 0.0, 0.0
        for size in order:
            now += size
            total += now
        return total / len(order)

    shortest = one_by_one(sorted(sizes))
    return {"queue": one_by_one(sizes), "srtf": shortest, "fair": 2 * shortest - statistics.mean(sizes)}


def under_hocket(jobs: list[Job], persistent: float) -> tuple[list[Job], int]:
    """The same jobs, and the memory that is left for what outlives their steps: the largest transient is set aside."""
    transient = max(job["persistent"] for job in jobs) * (1 - persistent)
    return [{**job, "persistent": int(job["persistent"] * persistent)} for job in jobs], int(16 * GIB - transient)


def _contenders(context: Context, seed: int, cost: float, fair: bool) -> dict[str, dict[str, Any]]:
    jobs = batch(context, seed)
    moved, room = under_hocket(jobs, PERSISTENT)
    unknown = [{**job, "told_steps": 0} for job in moved]
    plain = {"plain": True, "memory": 16 * GIB, "starting": CORES, "hand_over_ms": cost}
    ours = {"memory": room, "starting": CORES, "hand_over_ms": cost}
    found = {
        "FIFO, start-ups in line": context.simulate(jobs, "queue", **plain),
        "PACK, time-sliced": context.simulate(jobs, "fair", **plain),
        "PACK, step by step": context.simulate(jobs, "fifo", **plain),
        "FIFO": context.simulate(moved, "queue", **ours),
        "SRTF": context.simulate(moved, "srtf", **ours),
        "SRTF, all memory persistent": context.simulate(jobs, "srtf", **{**ours, "memory": 16 * GIB}),
        "SRTF, told nothing": context.simulate(unknown, "srtf", **ours),
    }
    if fair:
        found["FAIR"] = context.simulate(moved, "fair", **ours)
    return found


def run(context: Context) -> Result:
    cost, said = measured_hand_over_ms()
    seeds, fair_seeds, other_seeds = (2, 0, 1) if context.quick else (200, 20, 20)
    rows: list[dict[str, Any]] = []
    found: dict[str, list[dict[str, Any]]] = {}
    ideals = [ideal(batch(context, seed)) for seed in range(seeds)]
    for hand_over in (cost, 0.0, 10 * cost):
        many = seeds if hand_over == cost else other_seeds
        runs: dict[str, list[dict[str, Any]]] = {}
        for seed in range(many):
            fair = seed < (fair_seeds if hand_over == cost else fair_seeds // 10)
            for name, report in _contenders(context, seed, hand_over, fair).items():
                runs.setdefault(name, []).append({key: value for key, value in report.items() if key != "ends"})
        rows += [_row(name, hand_over, reports) for name, reports in runs.items()]
        if hand_over == cost:
            found = runs
    for name, key in (("ideal FIFO", "queue"), ("ideal SRTF", "srtf"), ("ideal processor sharing", "fair")):
        median, low, high = tenths([best[key] / 60 for best in ideals])
        rows.append(
            {
                **dict.fromkeys(rows[0], ""),
                "policy": name,
                "seeds": seeds,
                "mean, min": median,
                "10th .. 90th": f"{low:.1f} .. {high:.1f}",
            }
        )
    return Result(
        model=(
            f"{JOBS} draws from Philly's run times (`alibaba-pai`), 60 to 43,200 s, scaled to 303.4 min in all, each a "
            "row of Salus's profiles (`salus`): length of a step, start-up, peak memory. All come at once, on a GPU of "
            f"16 GiB. Start-ups take host time only and overlap others' turns, {CORES} at once. *FIFO, start-ups in "
            "line* and *PACK* are jobs without Hocket: each holds its peak from its start-up to its end and starts "
            "only where that fits beside the others (PACK; *time-sliced*: equal device time, *step by step*: a step "
            f"each). The others are Hocket's: a fifth of the peak outlives a step ({PERSISTENT}, assumed: Salus gives "
            "the peak only) and is moved at 20 GB/s where it does not fit, 16 GiB less the largest transient; or all "
            f"of it (*all memory persistent*). A hand-over that moves nothing costs {said}, nothing, or ten times "
            "that. No gain from running steps of two jobs at once, steady step times. Minutes; medians over seeds."
        ),
        rows=rows,
        goals=_goals(found, ideals),
        reading=(
            "FAIR is played on fewer seeds than the others: each takes half a minute. FIFO is one order of the jobs "
            "and varies with the seed; *of ideal* is taken seed by seed."
        ),
        draw=lambda figure: _draw(figure, found, ideals),
    )


def _row(name: str, cost: float, reports: list[dict[str, Any]]) -> dict[str, Any]:
    def minutes(key: str) -> list[float]:
        return [report[key] / 60 for report in reports]

    median, low, high = tenths(minutes("mean_jct_s"))
    return {
        "policy": name,
        "hand-over, ms": cost,
        "seeds": len(reports),
        "mean, min": median,
        "10th .. 90th": f"{low:.1f} .. {high:.1f}",
        "median, min": statistics.median(minutes("median_jct_s")),
        "p95, min": statistics.median(minutes("p95_jct_s")),
        "p99, min": statistics.median(minutes("p99_jct_s")),
        "queue, min": statistics.median(minutes("mean_queue_s")),
        "makespan, min": statistics.median(minutes("makespan_s")),
        "slowdown": statistics.median(report["mean_slowdown"] for report in reports),
        "busy": statistics.median(report["busy"] for report in reports),
        "turns a minute": statistics.median(report["turns"] / report["makespan_s"] * 60 for report in reports),
    }


def _ratios(above: list[dict[str, Any]], below: list[dict[str, Any]], key: str) -> list[float]:
    return [a[key] / b[key] for a, b in zip(above, below, strict=False)]


def _goals(found: dict[str, list[dict[str, Any]]], ideals: list[dict[str, float]]) -> list[Goal]:
    gains = [
        gain / (best["queue"] / best["srtf"])
        for gain, best in zip(_ratios(found["FIFO"], found["SRTF"], "mean_jct_s"), ideals, strict=False)
    ]
    alone = [best["srtf"] / run["mean_jct_s"] for run, best in zip(found["SRTF"], ideals, strict=False)]
    computed = "computed from the same seed's jobs, without any cost"
    goals = [
        Goal("SRTF's gain over FIFO, of the ideal gain, median", statistics.median(gains), 0.98, computed, True),
        Goal("ideal SRTF's mean over SRTF's, the worst seed", min(alone), 0.98, computed, True),
    ]
    if "FAIR" in found:
        fair = [run["mean_jct_s"] / best["fair"] for run, best in zip(found["FAIR"], ideals, strict=False)]
        goals.append(Goal("FAIR's mean over ideal processor sharing's, the worst seed", max(fair), 1.02, computed))
    for name in ("PACK, time-sliced", "PACK, step by step"):
        for text, key in (("mean", "mean_jct_s"), ("makespan", "makespan_s")):
            gain = statistics.median(_ratios(found["FIFO, start-ups in line"], found[name], key))
            goals.append(Goal(f"FIFO with start-ups in line over {name}: {text}", gain, 1, SET_HERE, True))
    return goals


def _draw(figure: Any, found: dict[str, list[dict[str, Any]]], ideals: list[dict[str, float]]) -> None:
    means, ratio = figure.subplots(1, 2)
    names = list(found)
    means.boxplot(
        [[run["mean_jct_s"] / 60 for run in found[name]] for name in names],
        orientation="horizontal",
        tick_labels=names,
        showfliers=False,
    )
    means.set(xlabel="mean completion time of a seed's 100 jobs (min)", title="E1: one GPU, 100 jobs at once")
    for name, key in (("SRTF", "srtf"), ("FAIR", "fair")):
        values = sorted(run["mean_jct_s"] / best[key] for run, best in zip(found.get(name, []), ideals, strict=False))
        if values:
            ratio.step(values, [(i + 1) / len(values) for i in range(len(values))], where="post", label=name)
    ratio.axvline(1.02, color="grey", linestyle=":")
    ratio.set(xlabel="mean completion time over the ideal of the same seed", ylabel="share of seeds", ylim=(0, 1))
    ratio.legend()
