"""Schedulers compared on real arrivals, in simulation.

    experiments.py e1|e2|scale --daemon hocketd [--workloads DIR]

What is simulated is stated beside the numbers: each device is one core of the coordinator, turns are exclusive, no
interference, no noise. ``--workloads`` is a folder with the public traces (alibaba-pai, salus, gavel, microsoft-itp);
``scale`` invents its jobs. Prints a table, and with ``--json FILE`` writes what the table was made of.
"""

from __future__ import annotations

import argparse
import csv
import json
import platform
import random
import statistics
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

Job = dict[str, Any]
GIB = 1 << 30


def simulate(daemon: Path, jobs: list[Job], *flags: str) -> dict[str, Any]:
    """The reports of hocketd simulate, by policy."""
    with tempfile.NamedTemporaryFile("w", suffix=".csv", newline="") as file:
        writer = csv.DictWriter(file, list(jobs[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(jobs)
        file.flush()
        done = subprocess.run([daemon, "simulate", file.name, *flags], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)["policies"]


def rows(path: Path) -> list[dict[str, str]]:
    with open(path, encoding="utf-8") as file:
        return list(csv.DictReader(file))


# --- e1: 100 jobs at once on one device -------------------------------------------------------------


def batch(workloads: Path, seed: int) -> list[Job]:
    """100 run times of Philly's between 1 min and 12 h, scaled to 303.4 min in all; of each a model of Salus's."""
    draw = random.Random(seed)
    runtimes = [float(row["runtime_s"]) for row in rows(workloads / "alibaba-pai/philly_runtime_s_every8th_sorted.csv")]
    runtimes = [runtime for runtime in runtimes if 60 <= runtime <= 43_200]
    models = rows(workloads / "salus/iteration_profile.csv")
    drawn = [draw.choice(runtimes) for _ in range(100)]
    scale = 303.4 * 60 / sum(drawn)
    jobs = []
    for i, runtime in enumerate(drawn):
        model = draw.choice(models)
        step = float(model["iteration_ms"])
        # Salus gives the peak only; what outlives a step is taken to be a fifth of it.
        jobs.append({
            "name": f"{i}-{model['model']}",
            "steps": max(1, round(runtime * scale * 1e3 / step)),
            "step_ms": step,
            "startup_s": float(model["startup_s"]),
            "persistent": int(float(model["peak_mem_mib"]) * (1 << 20) / 5),
        })  # fmt: skip
    return jobs


def ideal(jobs: list[Job]) -> dict[str, float]:
    """Mean completion times of the batch with no cost of switching and no start-up."""
    sizes = [job["steps"] * job["step_ms"] / 1e3 for job in jobs]

    def one_by_one(order: list[float]) -> float:
        now, total = 0.0, 0.0
        for size in order:
            now += size
            total += now
        return total / len(order)

    shortest = one_by_one(sorted(sizes))
    return {"queue": one_by_one(sizes), "srtf": shortest, "fair": 2 * shortest - statistics.mean(sizes)}


def e1(options: argparse.Namespace) -> dict[str, Any]:
    """Salus's policies: mean completion time over the ideal of the same seed."""
    policies = ("queue", "srtf", "fair")
    result: dict[str, Any] = {"seeds": options.seeds, "rows": []}
    for cost in options.costs:
        for startups in (False, True):
            ratios: dict[str, list[float]] = {policy: [] for policy in policies}
            minutes: dict[str, list[float]] = {policy: [] for policy in policies}
            gains = []
            for seed in range(options.seeds):
                jobs = batch(options.workloads, seed)
                best = ideal(jobs)
                if not startups:
                    jobs = [{**job, "startup_s": 0} for job in jobs]
                reports = simulate(options.daemon, jobs, f"--policy={','.join(policies)}", f"--memory={16 * GIB}",
                                   f"--hand-over-ms={cost}", f"--starting={options.cores}")  # fmt: skip
                for policy in policies:
                    minutes[policy].append(reports[policy]["mean_jct_s"] / 60)
                    ratios[policy].append(reports[policy]["mean_jct_s"] / best[policy])
                gains.append(
                    reports["queue"]["mean_jct_s"] / reports["srtf"]["mean_jct_s"] / (best["queue"] / best["srtf"])
                )
            for policy in policies:
                tenths = statistics.quantiles(minutes[policy], n=10) if options.seeds > 1 else minutes[policy] * 9
                result["rows"].append({"hand_over_ms": cost, "startups": startups, "policy": policy,
                                       "mean_jct_min": statistics.median(minutes[policy]),
                                       "p10": tenths[0], "p90": tenths[8],
                                       "over_ideal": statistics.median(ratios[policy]),
                                       "gain_over_ideal_gain": statistics.median(gains)})  # fmt: skip
    return result


# --- e2: real arrivals --------------------------------------------------------------------------------

REFERENCE = {"b436b2": (704_978, 558_538), "cluster10": (527_535, 306_204), "cluster01": (563_311, 313_182)}


def arrivals(workloads: Path, name: str) -> list[Job]:
    if name == "b436b2":
        trace = [
            (row["arrival_s"], row["duration_v100_s"]) for row in rows(workloads / "gavel/trace_philly_b436b2_1gpu.csv")
        ]
    else:
        trace = [(row["submission_time"], row["duration"]) for row in rows(workloads / f"microsoft-itp/{name}.csv")
                 if row["num_gpu"] == "1"]  # fmt: skip
    return [{"name": str(i), "arrival_s": float(arrival), "steps": max(1, round(float(duration) * 10)), "step_ms": 100,
             "persistent": 4 * GIB} for i, (arrival, duration) in enumerate(trace)]  # fmt: skip


def e2(options: argparse.Namespace) -> dict[str, Any]:
    """FIFO (queue) and srtf against the ideal; srtf told sizes that are wrong by up to a half, and none at all."""
    result: dict[str, Any] = {"rows": []}
    for name, devices in (("b436b2", 2), ("cluster10", 2), ("cluster01", 8)):
        jobs = arrivals(options.workloads, name)
        fifo_reference, srtf_reference = REFERENCE[name]
        draw = random.Random(1)
        wrong = [{**job, "told_steps": max(1, round(job["steps"] * draw.uniform(0.5, 1.5)))} for job in jobs]
        unknown = [{**job, "told_steps": 0} for job in jobs]
        # Twelve jobs of 4 GiB do not fit 40 GiB: bytes move at 20 GB/s when they must.
        flags = (f"--devices={devices}", f"--memory={40 * GIB}")
        fifo = simulate(options.daemon, jobs, "--policy=queue", *flags)["queue"]
        for told, variant, cost in (("truth", jobs, 0.0), ("truth", jobs, 50.0), ("truth", jobs, 500.0),
                                    ("+-50 %", wrong, 50.0), ("nothing", unknown, 50.0)):  # fmt: skip
            report = simulate(options.daemon, variant, "--policy=srtf", f"--hand-over-ms={cost}", *flags)["srtf"]
            result["rows"].append({"trace": name, "devices": devices, "told": told, "hand_over_ms": cost,
                                   "mean_jct_s": report["mean_jct_s"],
                                   "over_reference": report["mean_jct_s"] / srtf_reference,
                                   "over_fifo": report["mean_jct_s"] / fifo["mean_jct_s"],
                                   "fifo_over_reference": fifo["mean_jct_s"] / fifo_reference,
                                   "mean_slowdown": report["mean_slowdown"], "turns": report["turns"]})  # fmt: skip
    return result


# --- scale --------------------------------------------------------------------------------------------


def scale(options: argparse.Namespace) -> dict[str, Any]:
    """How long it takes to simulate 100,000 jobs on 1,000 devices."""
    draw = random.Random(0)
    jobs = [{"name": str(i), "arrival_s": round(draw.uniform(0, 80_000)), "steps": 1 + int(draw.lognormvariate(8, 1.5)),
             "step_ms": 200, "persistent": 4 * GIB} for i in range(options.jobs)]  # fmt: skip
    result: dict[str, Any] = {"jobs": options.jobs, "rows": []}
    for policy in ("queue", "srtf"):
        began = time.monotonic()
        report = simulate(options.daemon, jobs, f"--policy={policy}", "--devices=1000", "--hand-over-ms=10")[policy]
        result["rows"].append({"policy": policy, "seconds": time.monotonic() - began, "turns": report["turns"],
                               "mean_jct_s": report["mean_jct_s"], "busy": report["busy"]})  # fmt: skip
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("experiment", choices=["e1", "e2", "scale"])
    parser.add_argument("--daemon", type=Path, required=True)
    parser.add_argument("--workloads", type=Path)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--costs", type=float, nargs="+", default=[0.0, 0.2, 2.0], help="of a hand-over in e1, ms")
    parser.add_argument("--cores", type=int, default=8, help="jobs that start up at once, in e1")
    parser.add_argument("--jobs", type=int, default=100_000, help="of scale")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    run = {"e1": e1, "e2": e2, "scale": scale}[options.experiment]
    result = {"simulated": True, "experiment": options.experiment, "machine": platform.machine(), **run(options)}
    if options.json:
        options.json.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    print(f"simulated: {options.experiment}")
    print(" | ".join(result["rows"][0]))
    for row in result["rows"]:
        print(" | ".join(f"{value:.4g}" if isinstance(value, float) else str(value) for value in row.values()))


if __name__ == "__main__":
    main()
