"""E5: a guaranteed job (priority high, bound 2 %) and an opportunistic one: all pairs of Muri's models on one GPU."""

from __future__ import annotations

import functools
import math
from typing import Any

from tests.experiments.simulation import Context, Goal, Job, Result, measured_hand_over_ms

KEPT = 0.98  # of its speed alone, by the guaranteed job: the coordinator's default bound
SECONDS = 3600
Times = tuple[float, float]  # of one iteration, ms: the GPU's part, the rest


def models(context: Context) -> dict[str, Times]:
    """Muri's profile: the GPU's part of an iteration, and what is left of its measured time."""
    rows = [row for row in context.rows("muri/stage_profile.csv") if row["num_gpu"] == "1"]
    return {
        row["model"]: (float(row["gpu_ms"]), max(0.0, float(row["iteration_ms"]) - float(row["gpu_ms"])))
        for row in rows
    }


def job(name: str, times: Times, priority: str) -> Job:
    """One that does not end while it is looked at."""
    return {
        "name": name,
        "steps": 1 + math.ceil(2 * SECONDS * 1e3 / sum(times)),
        "step_ms": times[0],
        "gap_ms": times[1],
        "priority": priority,
    }


def played(context: Context, guaranteed: Times, other: Times, cost: float) -> tuple[float, float]:
    """The steps of both in ``SECONDS``, each over what it does alone."""
    jobs = [job("guaranteed", guaranteed, "high"), job("other", other, "normal")]
    report = context.simulate(jobs, "priority", each=True, until_s=SECONDS, hand_over_ms=cost)
    steps = {end["name"]: end["steps"] for end in report["ends"]}
    return tuple(
        steps[name] * sum(times) / (SECONDS * 1e3) for name, times in (("guaranteed", guaranteed), ("other", other))
    )


@functools.cache
def oracle(guaranteed: Times, other: Times, kept: float = KEPT) -> float:
    """The most that the other job can do, over what it does alone, where whole steps are scheduled with full knowledge
    and the guaranteed job keeps ``kept`` of its speed.

    In each cycle of the guaranteed job some number of the other's steps are run, beginning as soon as the device and
    the job are ready; what sticks out of the gap is delay. The best long-run average is found by value iteration over
    when the other is ready (in ms from the gap's begin), the delay priced so that the bound is just kept; between two
    prices the two plans are mixed.
    """
    step, rest = guaranteed
    its, gap = other
    states = math.ceil(gap) + 1
    most = max(1, math.ceil((rest + 2 * its) / (its + gap)) + 1)

    def moves(ready: float) -> list[tuple[int, float, int]]:
        """(steps, delay, when the other is ready in the next cycle), for each number of steps."""
        found = [(0, 0.0, math.ceil(max(0.0, ready - rest - step)))]
        for many in range(1, most + 1):
            end = ready + many * its + (many - 1) * gap
            found.append((many, max(0.0, end - rest), math.ceil(max(0.0, end + gap - max(rest, end) - step))))
        return found

    table = [moves(float(state)) for state in range(states)]

    def best(price: float) -> tuple[float, float]:
        """Steps and delay of a cycle, on average, when each millisecond of delay costs ``price`` steps."""
        value = [0.0] * states
        for _ in range(60):
            value = [max(many - price * delay + value[after] for many, delay, after in choices) for choices in table]
            value = [number - value[0] for number in value]
        state, steps, delays, cycles = 0, 0, 0.0, 400
        for _ in range(cycles):
            many, delay, state = max(table[state], key=lambda move: move[0] - price * move[1] + value[move[2]])
            steps, delays = steps + many, delays + delay
        return steps / cycles, delays / cycles

    allowed = (step + rest) * (1 / kept - 1)
    low, high = 0.0, 1.0  # a price at which too much is delayed, and one at which not
    plenty, enough = best(low), best(high)
    if plenty[1] <= allowed:
        enough = plenty
    else:
        while enough[1] > allowed:
            high *= 4
            enough = best(high)
        for _ in range(25):
            middle = (low + high) / 2
            now = best(middle)
            if now[1] > allowed:
                low, plenty = middle, now
            else:
                high, enough = middle, now
    share = 0.0 if plenty[1] <= enough[1] else (allowed - enough[1]) / (plenty[1] - enough[1])
    steps = enough[0] + min(1.0, share) * (plenty[0] - enough[0])
    delay = enough[1] + min(1.0, share) * (plenty[1] - enough[1])
    return min(1.0, steps * (its + gap) / (step + rest + delay))


def run(context: Context) -> Result:
    cost, said = measured_hand_over_ms()
    profile = dict(list(models(context).items())[:: 4 if context.quick else 1])
    rows: list[dict[str, Any]] = []
    for name, guaranteed in profile.items():
        for other_name, other in profile.items():
            kept, harvest = played(context, guaranteed, other, cost)
            most = oracle(guaranteed, other)
            rows.append(
                {
                    "guaranteed": name,
                    "other": other_name,
                    "guaranteed keeps": kept,
                    "other gets": harvest,
                    "the oracle's": most,
                    "of the oracle": harvest / most,
                    "of the idle share": harvest * other[0] / sum(other) / (guaranteed[1] / sum(guaranteed)),
                }
            )
    set_here = "set for this experiment"
    short = sum(row["of the oracle"] < 0.9 for row in rows)
    slow = sum(row["guaranteed keeps"] < KEPT for row in rows)
    return Result(
        model=(
            f"Each pair of the {len(profile)} models of Muri's single-GPU profile for {SECONDS} s: one is guaranteed "
            "(`priority` high, bound 2 %), the other takes what is left (policy `priority`, neither says how long it "
            "runs). An iteration is the GPU's part, then host work for what is left of its measured time alone, "
            f"in which it is `away`. Both fit the device. A hand-over costs {said}. *Keeps*, *gets*: steps over "
            "those alone. *The oracle* schedules whole steps of the same jobs with full knowledge at the same bound "
            "and no cost. Gavel's 633 measured pairs run concurrently and say nothing of an iteration's parts: there "
            "is nothing in them to play."
        ),
        rows=rows,
        goals=[
            Goal(
                "the guaranteed job keeps, the worst pair",
                min(row["guaranteed keeps"] for row in rows),
                KEPT,
                set_here,
                True,
            ),
            Goal(
                "the other gets of the oracle's, the worst pair",
                min(row["of the oracle"] for row in rows),
                0.9,
                "the oracle, from the same profile",
                True,
            ),
            Goal("pairs in which the guaranteed job keeps less than 98 %", slow, 0, set_here),
            Goal(
                "pairs in which the other gets less than 90 % of the oracle's",
                short,
                0,
                "the oracle, from the same profile",
            ),
        ],
        reading=(
            "Where the other's gap is longer than the guaranteed job's whole iteration (gpt2 beside dqn or a2c), it is "
            "ready shortly after the guaranteed job has asked again. As the oracle does, the policy lets the device "
            "idle until then where the bound pays for it."
        ),
        draw=lambda figure: _draw(figure, rows),
    )


def _draw(figure: Any, rows: list[dict[str, Any]]) -> None:
    kept, harvest = figure.subplots(1, 2)
    kept.plot(sorted(row["guaranteed keeps"] for row in rows), marker=".")
    kept.axhline(KEPT, color="grey", linestyle=":")
    kept.set(xlabel="pair, in order", ylabel="speed kept by the guaranteed job", title="E5")
    harvest.scatter([row["the oracle's"] for row in rows], [row["other gets"] for row in rows], s=12)
    harvest.plot([0, 1], [0, 1], color="grey", linestyle=":")
    harvest.plot([0, 1], [0, 0.9], color="grey", linestyle=":")
    harvest.set(xlabel="oracle: speed of the other", ylabel="played: speed of the other")
