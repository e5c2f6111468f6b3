"""E3: jobs that run beside each other, with Gavel's measured interference: who is paired, and what that is worth."""

from __future__ import annotations

import itertools
import random
import statistics
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from tests.experiments.simulation import GIB, Context, Goal, Job, Report, Result, measured_hand_over_ms

GPU = "v100"
LEAST_MS = 500  # steps are played in so many at once that they take at least so long
PAIR_LEAST_MS = 100  # of a pair by itself
PAIR_S = 3600
ORDERS = 20  # of the batch's jobs
ON_DEVICE = (2, 3, 4, 8)
STEPS_MS = ((10, 100, 1000), (500, 700, 900), (500,) * 8)
SHARE = 0.9  # that each of these keeps beside another
CAPACITY = 16 * GIB
FIFO = "FIFO, alone"
EVALUATION = "mean of the pairs that fit, set for this experiment"
BOUND = "linear program over shares of time of all pairs, no cost"

Rates = dict[str, dict[str, float]]


class Work(NamedTuple):
    """A job: its kind, what it takes alone, when it comes."""

    kind: str
    seconds: float
    arrival: float


class Speeds(NamedTuple):
    """Gavel's V100 set: steps a second alone; what a kind keeps of that beside another (0: they do not fit)."""

    alone: dict[str, float]
    beside: Rates


def speeds(context: Context) -> Speeds:
    rows = [row for row in context.rows("gavel/isolated_motivation.csv") if row["gpu"] == GPU]
    alone = {row["job_type"]: float(row["steps_per_s"]) for row in rows}
    beside: Rates = {kind: {} for kind in alone}
    for row in context.rows("gavel/pairs_motivation.csv"):
        if row["gpu"] != GPU:
            continue
        a, b = row["job_type_a"], row["job_type_b"]
        keeps = float(row["steps_per_s_a"]) / alone[a], float(row["steps_per_s_b"]) / alone[b]
        if a == b:  # two of a kind keep the same
            keeps = (sum(keeps) / 2,) * 2
        beside[a][b], beside[b][a] = keeps
    return Speeds(alone, beside)


def batch(context: Context, found: Speeds) -> list[Work]:
    rows = context.rows("gavel/trace_physical_minimize_makespan.csv")
    return [
        Work(row["job_type"], float(row["total_steps"]) / found.alone[row["job_type"]], 0.0)
        for row in rows
        if row["num_gpus"] == "1"
    ]


def arriving(context: Context) -> list[Work]:
    rows = context.rows("gavel/trace_philly_b436b2_1gpu.csv")
    first = float(rows[0]["arrival_s"])
    return [Work(row["job_type"], float(row["duration_v100_s"]), float(row["arrival_s"]) - first) for row in rows]


def sizes(beside: Rates) -> dict[str, float]:
    """Bytes of each kind, over the device's, that say of as many pairs as possible whether they fit: all that were
    measured do."""
    from scipy.optimize import linprog

    kinds = list(beside)
    pairs = list(itertools.combinations_with_replacement(range(len(kinds)), 2))
    misfits = [(a, b) for a, b in pairs if not beside[kinds[a]][kinds[b]]]
    limits, bounds = [], []
    for a, b in pairs:
        row = [0.0] * (len(kinds) + len(misfits))
        sign = -1 if (a, b) in misfits else 1
        row[a] += sign
        row[b] += sign
        if sign < 0:  # or by so much they would fit
            row[len(kinds) + misfits.index((a, b))] = -1
        limits.append(row)
        bounds.append(-1.01 if sign < 0 else 0.99)
    price = [1e-3] * len(kinds) + [1.0] * len(misfits)
    solved = linprog(price, A_ub=limits, b_ub=bounds, bounds=[(0.01, 1)] * len(kinds) + [(0, None)] * len(misfits))
    return dict(zip(kinds, solved.x, strict=False))


def played(work: Sequence[Work], found: Speeds, least_ms: float = LEAST_MS) -> list[Job]:
    size = sizes(found.beside)
    jobs = []
    for number, job in enumerate(work):
        step_ms = 1e3 / found.alone[job.kind]
        at_once = max(1, round(least_ms / step_ms))
        jobs.append(
            {
                "name": str(number),
                "arrival_s": job.arrival,
                "steps": max(1, round(job.seconds * 1e3 / step_ms / at_once)),
                "step_ms": step_ms * at_once,
                "kind": job.kind,
                "transient": int(size[job.kind] * CAPACITY),
            }
        )
    return jobs


# --- without the coordinator: what could be had, at no cost


def makespan(work: Sequence[Work], beside: Rates, choose: Callable[[str | None, list[Work]], Work | None]) -> float:
    """Of two jobs at a time: ``choose`` says who of those that wait comes beside the kind that runs (None: nobody)."""
    coming = sorted(work, key=lambda job: job.arrival)
    waiting: list[Work] = []
    running: list[tuple[str, float]] = []  # kind, what is left
    now = 0.0
    while coming or waiting or running:
        while coming and coming[0].arrival <= now:
            waiting.append(coming.pop(0))
        while waiting and len(running) < 2:
            next_one = choose(running[0][0] if running else None, waiting)
            if next_one is None:
                break
            waiting.remove(next_one)
            running.append((next_one.kind, next_one.seconds))
        kinds = [kind for kind, _ in running]
        keep = [1.0] if len(running) == 1 else [beside[a][b] for a, b in zip(kinds, reversed(kinds), strict=True)]
        if len(keep) == 2 and sum(keep) < 1:
            keep = [0.5, 0.5]  # in turn
        passed = min((left / rate for (_, left), rate in zip(running, keep, strict=False)), default=float("inf"))
        if coming:
            passed = min(passed, coming[0].arrival - now)
        now += passed
        running = [(kind, left - passed * rate) for (kind, left), rate in zip(running, keep, strict=False)]
        running = [(kind, left) for kind, left in running if left > 1e-6]
    return now


def best_partner(beside: Rates) -> Callable[[str | None, list[Work]], Work | None]:
    def choose(kind: str | None, waiting: list[Work]) -> Work | None:
        if kind is None:
            return waiting[0]
        gain, partner = max(((beside[kind][w.kind] + beside[w.kind][kind], w) for w in waiting), key=lambda of: of[0])
        return partner if gain > 1 else None

    return choose


def random_partner(beside: Rates, seed: int) -> Callable[[str | None, list[Work]], Work | None]:
    draw = random.Random(seed)

    def choose(kind: str | None, waiting: list[Work]) -> Work | None:
        fit = [w for w in waiting if kind is None or beside[kind][w.kind]]
        return draw.choice(fit) if fit else None

    return choose


def least_time(work: Iterable[Work], beside: Rates) -> float:
    """The least time in which pairs, and jobs alone, can do the work: each has the device for some share of it."""
    from scipy.optimize import linprog

    by_kind: dict[str, float] = {}
    for job in work:
        by_kind[job.kind] = by_kind.get(job.kind, 0) + job.seconds
    kinds = list(by_kind)
    pairs = [(a, b) for a, b in itertools.combinations_with_replacement(range(len(kinds)), 2)]
    done = [[float(a == b) for b in range(len(kinds))] for a in range(len(kinds))]  # alone
    for a, b in pairs:
        row = [0.0] * len(kinds)
        row[a] += beside[kinds[a]][kinds[b]]
        row[b] += beside[kinds[b]][kinds[a]]
        done.append(row)
    limits = [[-row[kind] for row in done] for kind in range(len(kinds))]
    solved = linprog([1.0] * len(done), A_ub=limits, b_ub=[-by_kind[kind] for kind in kinds])
    return float(solved.fun)


def least_makespan(work: Sequence[Work], beside: Rates, cuts: int = 50) -> float:
    """What comes from some time on is not begun before it."""
    times = sorted({job.arrival for job in work})
    times = times[:: max(1, len(times) // cuts)]
    return max(time + least_time([job for job in work if job.arrival >= time], beside) for time in times)


# --- the parts


def _pack(context: Context, jobs: list[Job], beside: Rates, cost: float, **flags: Any) -> Report:
    flags = {"together": 2, "memory": CAPACITY, "hand_over_ms": cost, **flags}
    return context.simulate(jobs, "pack", pairs=beside, **flags)


def _row(part: str, name: str, gain: float, bound: float, report: Report | None = None) -> dict[str, Any]:
    return {
        "part": part,
        "what": name,
        "gain over FIFO": gain,
        "of the bound": gain / bound,
        "mean completion, s": report["mean_jct_s"] if report else "",
        "turns": report["turns"] if report else "",
    }


def _batch(context: Context, found: Speeds, cost: float) -> tuple[list[dict[str, Any]], list[Goal]]:
    """(a): all at once."""
    work = batch(context, found)
    fifo = sum(job.seconds for job in work)
    bound = fifo / least_time(work, found.beside)
    draws = range(3 if context.quick else ORDERS)
    chance = [fifo / makespan(work, found.beside, random_partner(found.beside, seed)) for seed in draws]
    greedy = fifo / makespan(work, found.beside, best_partner(found.beside))

    def gain(jobs: list[Job], on_device: int, cost: float = cost) -> tuple[float, Report]:
        report = _pack(context, jobs, found.beside, cost, at_once=on_device)
        return fifo / report["makespan_s"], report

    jobs = played(work, found)
    rows = [
        _row("a", FIFO, 1.0, bound),
        _row("a", f"random partner, median of {len(draws)}", statistics.median(chance), bound),
        _row("a", "random partner, the best of these", max(chance), bound),
        _row("a", "best partner of those that wait, each time", greedy, bound),
        _row("a", "the bound", bound, bound),
    ]
    many = {on_device: gain(jobs, on_device) for on_device in ON_DEVICE[:: 3 if context.quick else 1]}
    rows += [_row("a", f"pack, {on_device} on the device", *of[:1], bound, of[1]) for on_device, of in many.items()]
    for text, other in (("no cost", 0.0), ("ten times the cost", 10 * cost)):
        value, report = gain(jobs, 2, other)
        rows.append(_row("a", f"pack, 2 on the device; {text}", value, bound, report))
    value, report = gain(played(work, found, LEAST_MS / 5), 2)
    rows.append(_row("a", "pack, 2 on the device; steps a fifth as long", value, bound, report))
    orders = []
    for seed in draws:
        shuffled = random.Random(seed).sample(jobs, len(jobs))
        orders.append(gain(shuffled, 2)[0])
    middle = statistics.median(orders)
    rows.append(_row("a", f"pack, 2 on the device, median of {len(draws)} orders", middle, bound))
    text = "(a) pack, 2 on the device"
    first = many[2][0]
    goals = [
        Goal(f"{text}: makespan gain over FIFO", first, 1.37, EVALUATION, True),
        Goal(f"{text}: of the bound", first / bound, 0.9, BOUND, True),
        Goal(f"{text}, median of the orders: of the bound", middle / bound, 0.9, BOUND, True),
        Goal(f"{text}: of the best partner's gain", first / greedy, 0.9, "the same jobs, at no cost", True),
        Goal(f"{text}, the worst order: makespan gain over FIFO", min(orders), 1, "FIFO", True),
        *(
            Goal(f"(a) pack, {on_device} on the device: of the bound", of[0] / bound, 0.9, BOUND, True)
            for on_device, of in many.items()
            if on_device > 2
        ),
    ]
    return rows, goals


def _arriving(context: Context, found: Speeds, cost: float) -> tuple[list[dict[str, Any]], list[Goal]]:
    """(b): with their arrivals."""
    work = arriving(context)[:: 20 if context.quick else 1]
    jobs = played(work, found)
    queue = context.simulate(jobs, "queue", pairs=found.beside, hand_over_ms=cost)
    fifo = queue["makespan_s"]
    bound = fifo / least_makespan(work, found.beside)
    draws = range(3)
    chance = [fifo / makespan(work, found.beside, random_partner(found.beside, seed)) for seed in draws]
    greedy = fifo / makespan(work, found.beside, best_partner(found.beside))
    report = _pack(context, jobs, found.beside, cost, at_once=2)
    gain = fifo / report["makespan_s"]
    rows = [
        _row("b", FIFO, 1.0, bound, queue),
        _row("b", f"random partner, median of {len(draws)}", statistics.median(chance), bound),
        _row("b", "best partner of those that wait, each time", greedy, bound),
        _row("b", "the bound", bound, bound),
        _row("b", "pack, 2 on the device", gain, bound, report),
    ]
    text = "(b) pack, 2 on the device"
    return rows, [
        Goal(f"{text}: makespan gain over FIFO", gain, 1.37, EVALUATION, True),
        Goal(f"{text}: of the bound", gain / bound, 0.9, BOUND, True),
        Goal(f"{text}: of the best partner's gain", gain / greedy, 0.9, "the same jobs, at no cost", True),
    ]


class Pair(NamedTuple):
    """A pair by itself: what it does together, over one job alone; what there was to be had."""

    kinds: tuple[str, str]
    gain: float
    beside: float

    @property
    def better(self) -> float:
        return max(1.0, self.beside)


def _pairs(context: Context, found: Speeds, cost: float) -> list[Pair]:
    """(c): each by itself, for a while."""
    pairs = []
    kinds = list(found.beside)
    for a, b in list(itertools.combinations_with_replacement(kinds, 2))[:: 2 if context.quick else 1]:
        work = [Work(kind, 2 * PAIR_S, 0.0) for kind in (a, b)]
        jobs = played(work, found, PAIR_LEAST_MS)
        report = _pack(context, jobs, found.beside, cost, each=True, until_s=PAIR_S)
        ends = {end["name"]: end["steps"] for end in report["ends"]}
        done = sum(ends[job["name"]] * job["step_ms"] / 1e3 for job in jobs)
        pairs.append(Pair((a, b), done / PAIR_S, found.beside[a][b] + found.beside[b][a]))
    return pairs


def _lengths(context: Context, steps_ms: Sequence[int], cost: float) -> float:
    """(d): jobs of such steps, two at a time: what they do, over one job alone."""
    jobs = [
        {"name": str(ms), "steps": 2 * PAIR_S * 1000 // ms, "step_ms": ms, "kind": "any", "transient": 0}
        for ms in steps_ms
    ]
    report = _pack(context, jobs, {"any": {"any": SHARE}}, cost, each=True, until_s=PAIR_S)
    return sum(end["steps"] * int(end["name"]) / 1e3 for end in report["ends"]) / PAIR_S


def _reading(rows: list[dict[str, Any]], goals: list[Goal], pairs: list[Pair], longest: float) -> str:
    """The causes, where a goal is not met."""
    bound = {row["part"]: row["gain over FIFO"] for row in rows if row["what"] == "the bound"}
    causes = []
    for part in ("a", "b"):
        missed = [goal for goal in goals if goal.text.startswith(f"({part})") and goal.bound == 1.37 and not goal.met]
        causes += [
            f"({part}) {goal.bound:g} is the mean of all pairs that fit, each counted once. These jobs allow "
            f"{bound[part]:.3f} at most"
            + (
                f": the two longest are {longest:.0%} of all work, and at the end one is left alone; "
                "for how long is the order's doing, of which the file's is one."
                if part == "a"
                else ", for their mix of kinds."
            )
            for goal in missed
        ]
    if any("on the device: of the bound" in goal.text and not goal.met for goal in goals):
        causes.append(
            "(a) With more than two on the device the pairs change with every turn. A pair's turn is as long as its "
            "longest step, and the other's steps seldom fill it to the end, as in (d): equal ones do. All have equal "
            "device time, so a turn's pair is whoever is next and gets on, while the bound has the best pairs."
        )
    if any(goal.text.startswith("(c)") and goal.bound == 1 and not goal.met for goal in goals):
        below = sum(1 for pair in pairs if pair.gain < 1)
        least = min(pair.beside for pair in pairs if pair.beside)
        causes.append(
            f"(c) {below} pairs do less than one after the other, by what it takes to find out (they are tried after "
            f"one minute, two, four, and so on) and to hand over after every step. Left beside each other the worst "
            f"would do {least:.3f}."
        )
    if any(goal.text.startswith("(d)") and not goal.met for goal in goals):
        causes.append(
            "(d) Steps of which none fits into another one a whole number of times end together only by chance: two "
            "of the shortest are longer than the longest, and after one of them its job waits for the other's end."
        )
    greedy = (
        "The best partner of those that wait is no best schedule: it leaves those for the end that get on with few."
    )
    return "\n\n".join([*causes, greedy])


def run(context: Context) -> Result:
    cost, said = measured_hand_over_ms()
    found = speeds(context)
    rows, goals = _batch(context, found, cost)
    more_rows, more_goals = _arriving(context, found, cost)
    rows += more_rows
    goals += more_goals
    pairs = _pairs(context, found, cost)
    worst = min(pairs, key=lambda pair: pair.gain)
    short = min(pairs, key=lambda pair: pair.gain / pair.better)
    for name, pair in (("the least gain", worst), ("the least of the better", short)):
        text = f"{name} of {len(pairs)} pairs by themselves: {' + '.join(pair.kinds)}"
        rows.append(_row("c", text, pair.gain, pair.better))
    lengths = {
        f"{len(steps_ms)} jobs, steps of {', '.join(str(ms) for ms in sorted(set(steps_ms)))} ms": _lengths(
            context, steps_ms, cost
        )
        for steps_ms in STEPS_MS[:: 2 if context.quick else 1]
    }
    rows += [_row("d", text, gain, 2 * SHARE) for text, gain in lengths.items()]
    goals += [
        Goal("(c) the worst pair by itself: gain over one after the other", worst.gain, 1, "one after the other", True),
        Goal(
            "(c) the worst pair by itself: of the better of sharing and taking turns",
            short.gain / short.better,
            0.9,
            "Gavel's rates, at no cost",
            True,
        ),
        *(
            Goal(f"(d) {text}: of the gain of two", gain / (2 * SHARE), 0.9, "two at a time, at no cost", True)
            for text, gain in lengths.items()
        ),
    ]
    unfit = sum(1 for pair in pairs if not pair.beside)
    seconds = sorted(job.seconds for job in batch(context, found))
    return Result(
        model=(
            f"Gavel's `motivation` set ({GPU}): what each of {len(found.alone)} kinds of jobs keeps of its speed "
            f"beside each other one. `pack` learns them from the steps that it sees, two in one turn at most; other "
            f"jobs on the device wait. {unfit} of {len(pairs)} pairs do not fit (0,0): each kind is given a transient "
            "size that says so of as many pairs as one size for a kind can, and of no other; a guest of the rest "
            "finds no room, and stands aside. Steps are played several as one so that one takes "
            f"{LEAST_MS} ms at least ({PAIR_LEAST_MS} in (c)). A hand-over costs {said}.\n\n"
            "(a) the single-GPU jobs of `trace_physical_minimize_makespan` on one device, all at once, so many of them "
            "on the device at a time, in the trace's order and in others. (b) `trace_philly_b436b2_1gpu` with its "
            f"arrivals, on one device. (c) each pair by itself for {PAIR_S} s. (d) jobs of such steps for "
            f"{PAIR_S} s, each at {SHARE} beside any other. *Gain*: FIFO's makespan over theirs; in (c) and (d) what "
            "is done over what one job does alone. *The bound* of (a) and (b): no schedule of pairs does better with "
            "these arrivals; of (c): the better of sharing and taking turns; of (d): two at a time. *Random* and *best "
            "partner*: two jobs at a time, at no cost, a partner for life; who does not get on takes turns."
        ),
        rows=rows,
        goals=goals,
        reading=_reading(rows, goals, pairs, sum(seconds[-2:]) / sum(seconds)),
        draw=lambda figure: _draw(figure, rows, pairs),
    )


def _draw(figure: Any, rows: list[dict[str, Any]], pairs: list[Pair]) -> None:
    left, right = figure.subplots(1, 2)
    some = [row for row in rows if row["part"] == "a"]
    left.barh([row["what"] for row in some], [row["gain over FIFO"] for row in some])
    left.set(xlabel="FIFO's makespan over theirs", xlim=(0.9, None), title="E3 (a)")
    left.tick_params(axis="y", labelsize=6)
    left.invert_yaxis()
    right.scatter([pair.better for pair in pairs], [pair.gain for pair in pairs], s=8)
    edges = [1, max(pair.better for pair in pairs)]
    right.plot(edges, edges, color="grey", linestyle=":")
    right.plot(edges, [0.9 * edge for edge in edges], color="grey", linestyle=":")
    right.set(xlabel="the better of sharing and taking turns", ylabel="played", title="(c) pairs by themselves")
