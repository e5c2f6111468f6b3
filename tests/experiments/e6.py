"""E6: shares of the device where steps are as noisy as measured ones, and whether slower steps are noticed."""

from __future__ import annotations

import itertools
import math
import statistics
from typing import Any

from tests.experiments.simulation import Context, Goal, Job, Result, measured_hand_over_ms

SECONDS, WARM_UP = 620, 20
WINDOWS = (1, 10, 60)  # s
FIRST = 10  # iterations that are left out: the first takes 4 to 11 times as long as the others
MEDIAN_MS = 100  # of a mini-batch whose time is known relatively only
SLOWER = 1.2  # steps become so many times as long half-way
AT_LEAST = 100  # iterations of a series, for that
SHORT_MS = 500  # a step that is no longer leaves a share in a window of 10 s within 5 %
SET_HERE = "set for this experiment"
Series = dict[str, list[float]]  # ms


def chronus(context: Context) -> dict[str, Series]:
    """Of each set, the iterations of each workload."""
    sets: dict[str, Series] = {}
    for row in context.rows("chronus/iteration_times_1gpu.csv"):
        sets.setdefault(row["set"], {}).setdefault(row["workload"], []).append(float(row["seconds"]) * 1e3)
    return {name: {kind: times[FIRST:] for kind, times in one.items()} for name, one in sets.items()}


def alibaba(context: Context, job: int) -> Series:
    """Of each worker of a job, its mini-batches, made ``MEDIAN_MS`` long in the median."""
    workers: Series = {}
    for row in context.rows(f"alibaba-pai/mini_batch_time_job_{job}.csv"):
        workers.setdefault(row["worker"], []).append(float(row["batch_time_norm"]))
    return {
        name: [time / statistics.median(times) * MEDIAN_MS for time in times[FIRST:]] for name, times in workers.items()
    }


def played(context: Context, series: Series, weights: list[float], cost: float) -> dict[int, list[tuple[float, float]]]:
    """For each length of window: of each, how far a share is from its target at most, and Jain's index."""
    jobs: list[Job] = [
        {
            "name": name,
            "steps": math.ceil(2 * SECONDS * 1e3 / statistics.mean(times)),
            "step_ms": " ".join(f"{time:.5f}" for time in times),
            "weight": weight,
        }
        for (name, times), weight in zip(series.items(), weights, strict=True)
    ]
    report = context.simulate(jobs, "fair", each=True, until_s=SECONDS, every_s=1, hand_over_ms=cost)
    return {window: shares([end["served_s"] for end in report["ends"]], weights, window) for window in WINDOWS}


def shares(served: list[list[float]], weights: list[float], window: int) -> list[tuple[float, float]]:
    """As ``played``, of one length, from what each job has had after each second."""
    found = []
    for begin in range(WARM_UP - 1, len(served[0]) - window, window):
        had = [one[begin + window] - one[begin] for one in served]
        fair = [share / sum(had) / (weight / sum(weights)) for share, weight in zip(had, weights, strict=True)]
        off = max(abs(ratio - 1) * weight / sum(weights) for ratio, weight in zip(fair, weights, strict=True))
        found.append((off, sum(fair) ** 2 / (len(fair) * sum(ratio**2 for ratio in fair))))
    return found


def noticed(context: Context, times: list[float]) -> list[int]:
    """After how many of these steps the coordinator noticed that they had become slower. Somebody else takes turns."""
    steady = statistics.median(times)
    jobs: list[Job] = [
        {"name": "series", "steps": len(times), "step_ms": " ".join(f"{time:.5f}" for time in times)},
        {"name": "steady", "steps": math.ceil(2 * sum(times) / steady), "step_ms": steady},
    ]
    report = context.simulate(jobs, "fair", each=True)
    return next(list(end["slower_at"]) for end in report["ends"] if end["name"] == "series")


def watched(context: Context) -> dict[str, list[dict[str, Any]]]:
    """For each set of series: of each, false alarms, and the delay until a slowdown is noticed (None: it was not)."""
    found: dict[str, list[dict[str, Any]]] = {}
    sets = {f"chronus, `{name}`": series for name, series in chronus(context).items()}
    sets |= {f"alibaba-pai, job {job}": alibaba(context, job) for job in (1, 2, 4)}
    for name, series in sets.items():
        some = list(series.values())[:: 3 if context.quick else 1]
        for times in (times for times in some if len(times) >= AT_LEAST):
            half = len(times) // 2
            slowed = times[:half] + [time * SLOWER for time in times[half:]]
            after = [step - half for step in noticed(context, slowed) if step > half]
            alarms = len(noticed(context, times))
            found.setdefault(name, []).append(
                {"steps": len(times), "alarms": alarms, "delay": after[0] if after else None}
            )
    return found


def scenes(context: Context) -> list[tuple[str, Series, list[float]]]:
    """(group, who shares the device, their weights)"""
    found: list[tuple[str, Series, list[float]]] = []
    for name, one in chronus(context).items():
        for a, b in list(itertools.combinations(one, 2))[:: 5 if context.quick else 1]:
            for weights in ([1.0, 1.0], [1.0, 3.0]):
                text = f"pairs of chronus, `{name}`, {weights[0]:g}:{weights[1]:g}"
                found.append((text, {a: one[a], b: one[b]}, weights))
        found.append((f"all {len(one)} of chronus, `{name}`", one, [1.0] * len(one)))
    for job in (1, 2, 4):
        workers = alibaba(context, job)
        found.append((f"{len(workers)} workers of alibaba-pai, job {job}", workers, [1.0] * len(workers)))
    return found


def run(context: Context) -> Result:
    cost, said = measured_hand_over_ms()
    groups: dict[str, list[dict[str, Any]]] = {}
    for group, series, weights in scenes(context):
        windows = played(context, series, weights, cost)
        groups.setdefault(group, []).append(
            {
                "longest": max(max(times) for times in series.values()),
                **{f"off {window}": [off for off, _ in found] for window, found in windows.items()},
                "jain": statistics.mean(index for _, index in windows[10]),
            }
        )
    watch = watched(context)
    rows = [_row(group, found) for group, found in groups.items()]
    every = [scene for found in groups.values() for scene in found]
    short = [scene for scene in every if scene["longest"] <= SHORT_MS]
    return Result(
        model=(
            f"Jobs whose steps take what was measured, one after the other and over and over: chronus's iterations on "
            f"a GPU of their own (the first {FIRST} left out), and mini-batches of Alibaba's workers on shared GPUs "
            f"(known relatively; {MEDIAN_MS} ms in the median here). They share a device for {SECONDS} s under `fair`, "
            f"of which the first {WARM_UP} s do not count; all fit, none has gaps. A hand-over costs {said}. *Off*: "
            "how far the share of the device's time that a job has in a window is from its target, of the job for "
            "which that is most; means over windows, of all scenes of a row and of the worst one. *Noticed*: a series "
            f"takes turns with a steady job, once as it is, once {SLOWER} times as slow from its middle on; what the "
            "coordinator says in the first is a false alarm."
        ),
        rows=rows,
        goals=[
            goal
            for text, some in ((f"no step above {SHORT_MS} ms", short), ("all scenes", every))
            if some
            for goal in _goals(text, some)
        ]
        + _goals_of_watching(watch),
        reading=(
            f"A turn ends with a step, so a step of more than 5 % of a window can put a share off by more than that; "
            f"{len(every) - len(short)} of {len(every)} scenes have such steps in windows of 10 s. Noticed: "
            + "; ".join(_in_words(name, found) for name, found in watch.items())
            + ". Series whose steps are now and then several times as long for a while (a3c of chronus, two workers of "
            "job 4) raise most of the alarms, and some of these are slowdowns indeed."
        ),
        draw=lambda figure: _draw(figure, every),
    )


def _row(group: str, found: list[dict[str, Any]]) -> dict[str, Any]:
    def off(window: int) -> list[float]:
        return [statistics.mean(scene[f"off {window}"]) for scene in found]

    row: dict[str, Any] = {"who": group, "scenes": len(found), "longest step, ms": max(s["longest"] for s in found)}
    for window in WINDOWS:
        row |= {f"off, {window} s": statistics.mean(off(window)), f"worst, {window} s": max(off(window))}
    return row | {"Jain, 10 s": statistics.mean(s["jain"] for s in found), "worst Jain": min(s["jain"] for s in found)}


def _goals(text: str, found: list[dict[str, Any]]) -> list[Goal]:
    off = max(statistics.mean(scene["off 10"]) for scene in found)
    return [
        Goal(f"{text}: off in windows of 10 s, mean of the worst scene", off, 0.05, SET_HERE),
        Goal(f"{text}: Jain's index in them, the worst scene", min(s["jain"] for s in found), 0.98, SET_HERE, True),
    ]


def _alarms(found: list[dict[str, Any]]) -> float:
    """A thousand iterations."""
    return 1e3 * sum(one["alarms"] for one in found) / sum(one["steps"] for one in found)


def _delays(found: list[dict[str, Any]]) -> list[float]:
    """In iterations, the shortest first; infinite where it was not noticed."""
    return sorted(math.inf if one["delay"] is None else one["delay"] for one in found)


def _in_words(name: str, found: list[dict[str, Any]]) -> str:
    delays = _delays(found)
    soon = sum(delay <= 50 for delay in delays)
    return (
        f"{name}: {_alarms(found):.2f} false alarms in 1,000 iterations, {soon} of {len(delays)} within 50 iterations, "
        f"half of them within {statistics.median(delays):g}"
    )


def _goals_of_watching(watch: dict[str, list[dict[str, Any]]]) -> list[Goal]:
    calm = [name for name in watch if name.startswith("alibaba-pai") and not name.endswith("4")]
    return [
        *(Goal(f"{name}: false alarms in 1,000 iterations", _alarms(watch[name]), 1, SET_HERE) for name in calm),
        *(
            Goal(f"{name}: iterations until it is noticed, the worst series", _delays(found)[-1], 50, SET_HERE)
            for name, found in watch.items()
        ),
    ]


def _draw(figure: Any, found: list[dict[str, Any]]) -> None:
    axes = figure.subplots(1, 1)
    for window in WINDOWS:
        off = [statistics.mean(scene[f"off {window}"]) for scene in found]
        axes.scatter([scene["longest"] for scene in found], off, s=12, label=f"windows of {window} s")
    axes.axhline(0.05, color="grey", linestyle=":")
    axes.set(xlabel="longest step (ms)", ylabel="share off its target", xscale="log", yscale="log", title="E6")
    axes.legend()
