"""E4: Muri's traces (SIGCOMM 2022): its SRTF on 64 GPUs, and one job's host work beside others' GPU work on eight."""

from __future__ import annotations

import statistics
from typing import Any

from tests.experiments.simulation import Context, Goal, Job, Report, Result, coarsened, measured_hand_over_ms

TRACES = ("trace1", "trace3", "trace4")
ALONE = 1.015  # Muri's simulator takes an iteration alone to be so much longer than the trace says
STEPS = 1000  # of the trace in one that is played
DEVICES = 8
FIFO_JOBS = (1, 2, 3, 4, 6)  # on a GPU at once
OURS = (("fair", 6), ("srtf", 6), ("srtf", 12))  # 12: as many as there are cores for a GPU
NEARLY = (
    0.9,
    0.925,
    0.95,
    0.975,
    1,
    1.025,
    1.05,
    1.075,
    1.1,
)  # times the cost of a hand-over: which job is last varies
PUBLISHED = "published_results.csv of Rivendile/Muri, fig9-10"
SET_HERE = "set for this experiment; Muri reports 1.6 times the throughput"


def gangs(context: Context, trace: str, at_once: bool) -> list[Job]:
    """All jobs of a trace; with ``at_once`` they all come at the beginning (Muri's ``_pr``)."""
    return [
        {
            "name": row["job_id"],
            "arrival_s": 0 if at_once else float(row["submit_time"]) / 1e3,
            "steps": int(row["iterations"]),
            "step_ms": float(row["iteration_time"]) * ALONE,
            "devices": int(row["num_gpu"]),
        }
        for row in context.rows(f"muri/{trace}.csv")
    ]


def single(context: Context) -> list[Job]:
    """trace4's jobs of one GPU: in an iteration, the GPU's part, and what is left of the measured time as host work."""
    jobs = []
    for row in context.rows("muri/trace4.csv"):
        if row["num_gpu"] != "1":
            continue
        gpu = float(row["resource_time_1"])
        jobs.append(
            {
                "name": row["job_id"],
                "arrival_s": float(row["submit_time"]) / 1e3,
                "steps": int(row["iterations"]),
                "step_ms": gpu,
                "gap_ms": max(0.0, float(row["iteration_time"]) - gpu),
            }
        )
    return jobs


def _published(context: Context) -> list[tuple[dict[str, Any], list[Goal]]]:
    """(a): SRTF's figures over Muri's."""
    figures = {
        (row["trace"], row["metric"]): float(row["value"])
        for row in context.rows("muri/published_results.csv")
        if row["figure"] == "fig9-10" and row["policy"] == "SRTF"
    }
    found = []
    for trace in TRACES[1:2] if context.quick else TRACES:
        for suffix in ("", "_pr"):
            jobs = gangs(context, trace, at_once=bool(suffix))
            for restart_s in (0, 10):
                report = context.simulate(jobs, "srtf", nodes=8, devices=8, hand_over_ms=restart_s * 1e3)
                over = {
                    key: report[ours] / figures[trace + suffix, key]
                    for ours, key in (
                        ("mean_jct_s", "avg_jct_s"),
                        ("makespan_s", "makespan_s"),
                        ("p99_jct_s", "p99_jct_s"),
                    )
                }
                row = _row(f"(a) {trace}{suffix}: SRTF, 64 GPUs, a restart {restart_s} s", report)
                row |= {
                    "mean over published": over["avg_jct_s"],
                    "makespan over published": over["makespan_s"],
                    "p99 over published": over["p99_jct_s"],
                }
                off = abs(over["avg_jct_s"] - 1)
                text = (
                    f"(a) {trace}{suffix}, restart {restart_s} s: SRTF's mean completion time, off the published one by"
                )
                found.append((row, [Goal(text, off, 0.05, PUBLISHED)]))
    return found


def _row(name: str, report: Report) -> dict[str, Any]:
    return {
        "what": name,
        "mean, s": report["mean_jct_s"],
        "p99, s": report["p99_jct_s"],
        "makespan, s": report["makespan_s"],
        "queue, s": report["mean_queue_s"],
        "busy": report["busy"],
        "mean over published": "",
        "makespan over published": "",
        "p99 over published": "",
        "makespan gain over FIFO": "",
        "lowest .. highest": "",
        "mean gain over SRTF": "",
    }


def _interleaved(context: Context, cost: float, steps: int) -> dict[str, Report]:
    """(b): by name; the first two are without overlap."""
    jobs = coarsened(single(context)[:: 20 if context.quick else 1], steps)
    alone = [{**job, "step_ms": job["step_ms"] + job["gap_ms"], "gap_ms": 0} for job in jobs]
    flags = {"devices": DEVICES, "hand_over_ms": cost * steps}
    found = {
        "FIFO, no overlap": context.simulate(alone, "queue", **flags),
        "SRTF, no overlap": context.simulate(alone, "srtf", **flags),
    }
    for many in FIFO_JOBS:
        found[f"FIFO, {many} a GPU"] = context.simulate(jobs, "fifo", plain=True, at_once=many, **flags)
    for policy, many in OURS:
        found[f"{policy}, {many} a GPU"] = context.simulate(jobs, policy, at_once=many, **flags)
    return found


def _nearly(context: Context, cost: float, found: dict[str, Report]) -> dict[str, list[tuple[float, float]]]:
    """(b): the gains of ours, by name, each at every one of the costs that are nearly ``cost``."""
    jobs = coarsened(single(context)[:: 20 if context.quick else 1], STEPS)
    fifo, srtf = found["FIFO, no overlap"]["makespan_s"], found["SRTF, no overlap"]["mean_jct_s"]
    gains: dict[str, list[tuple[float, float]]] = {}
    for policy, many in OURS:
        for times in NEARLY[::4] if context.quick else NEARLY:
            report = context.simulate(jobs, policy, at_once=many, devices=DEVICES, hand_over_ms=times * cost * STEPS)
            gains.setdefault(f"{policy}, {many} a GPU", []).append(
                (fifo / report["makespan_s"], srtf / report["mean_jct_s"])
            )
    return gains


def _gains(found: dict[str, Report]) -> dict[str, tuple[float, float]]:
    """Makespan over FIFO's and mean completion time over SRTF's, both without overlap."""
    fifo, srtf = found["FIFO, no overlap"]["makespan_s"], found["SRTF, no overlap"]["mean_jct_s"]
    return {name: (fifo / report["makespan_s"], srtf / report["mean_jct_s"]) for name, report in found.items()}


def run(context: Context) -> Result:
    cost, said = measured_hand_over_ms()
    published = _published(context)
    rows = [row for row, _ in published]
    goals = [goal for _, some in published for goal in some]
    found = _interleaved(context, cost, STEPS)
    gains = _gains(found)
    rows += [
        {
            **_row(f"(b) {name}", report),
            "makespan gain over FIFO": gains[name][0],
            "mean gain over SRTF": gains[name][1],
        }
        for name, report in found.items()
    ]
    for name, (hand_over, steps) in {
        "no cost": (0.0, STEPS),
        "ten times the cost": (10 * cost, STEPS),
        "steps a fifth as coarse": (cost, STEPS // 5),
    }.items():
        if context.quick:
            break
        other = _interleaved(context, hand_over, steps)
        rows += [
            {
                **_row(f"(b) {contender}; {name}", other[contender]),
                "makespan gain over FIFO": gain,
                "mean gain over SRTF": mean,
            }
            for contender, (gain, mean) in _gains(other).items()
            if contender.startswith(("FIFO, 6", "fair", "srtf"))
        ]
    best = max(gains[f"FIFO, {many} a GPU"][0] for many in FIFO_JOBS)
    for contender, some in _nearly(context, cost, found).items():
        makespans = [gain for gain, _ in some]
        gain, mean = statistics.median(makespans), statistics.median(mean for _, mean in some)
        name = f"(b) {contender}, median of {len(some)} costs within a tenth"
        rows.append(
            {
                **dict.fromkeys(rows[0], ""),
                "what": name,
                "makespan gain over FIFO": gain,
                "lowest .. highest": f"{min(makespans):.3f} .. {max(makespans):.3f}",
                "mean gain over SRTF": mean,
            }
        )
        goals += [
            Goal(f"{name}: makespan gain over that of the best FIFO", gain / best, 0.95, SET_HERE, True),
            Goal(f"{name}: makespan gain over FIFO without overlap", gain, 1.9, SET_HERE, True),
            Goal(f"{name}: SRTF without overlap over ours, mean completion time", mean, 2, SET_HERE, True),
        ]
    return Result(
        model=(
            "(a) All jobs of Muri's traces 1, 3 and 4 (2 is not stored), and the same all coming at once (`_pr`), on 8 "
            "nodes of 8 GPUs: gangs, all placed anew at every arrival and end in the order of the coordinator's `srtf` "
            f"(`cluster.h`; no core has part in it). An iteration takes {ALONE} times what the trace says, as in "
            "Muri's simulator; a restart costs nothing, or 10 s.\n\n"
            f"(b) trace4's jobs of one GPU on {DEVICES}. **One iteration model for all**: the GPU's part as measured, "
            "which is exclusive, then host work for what is left of the iteration's measured time alone (so a job "
            "alone takes exactly what was measured; the trace's own host part overlaps its GPU part for some models, "
            "vgg16's sum is 185 ms of 107), `away`. Host work takes one core; at most 12 jobs of a GPU are at work at "
            "once, so 12 cores a GPU are enough, and more change nothing. Memory is ignored: the trace has none. "
            f"{STEPS} iterations are played as one that is as many times as long. A hand-over costs {said}. *FIFO, n a "
            "GPU*: jobs without Hocket, in the order of arrival, n of a GPU at once. No other interference."
        ),
        rows=rows,
        goals=goals,
        reading=(
            "`fair` fills the devices as well as `srtf`, but equal shares are the wrong order where the mean counts "
            "(E2 has the same): it does not come near SRTF there. `srtf` with more jobs at once ends short jobs sooner "
            "and has the longer makespan: the long jobs are left for the end, and a job stays on its device, so the "
            "last of them do not fill all devices. Tried against it: places by the device time left on each device "
            "instead of by the number of its jobs; the makespan then varied more, up and down, with the number of jobs "
            "at once, and was not kept. Which job is the last one, and how long it is alone, differs between costs "
            "that are nearly the same, and the makespan with it, without an order in it: so the goals are held against "
            "the median over such costs."
        ),
        draw=lambda figure: _draw(figure, rows, gains),
    )


def _draw(figure: Any, rows: list[dict[str, Any]], gains: dict[str, tuple[float, float]]) -> None:
    left, right = figure.subplots(1, 2)
    published = [row for row in rows if row["mean over published"] != ""]
    names = [row["what"].removeprefix("(a) ").replace(": SRTF, 64 GPUs, a restart", ",") for row in published]
    left.barh(names, [row["mean over published"] for row in published])
    left.axvspan(0.95, 1.05, color="grey", alpha=0.3)
    left.set(xlabel="SRTF's mean completion time over the published", xlim=(0.9, 1.1), title="E4 (a)")
    left.tick_params(axis="y", labelsize=7)
    height = range(len(gains))
    right.barh([h + 0.2 for h in height], [gain for gain, _ in gains.values()], 0.4, label="makespan over FIFO's")
    right.barh([h - 0.2 for h in height], [mean for _, mean in gains.values()], 0.4, label="mean over SRTF's")
    right.set_yticks(list(height), list(gains), fontsize=7)
    right.set(xlabel="gain over no overlap", title="E4 (b)")
    right.legend(fontsize=7)
