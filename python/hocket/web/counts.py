"""Counters that only grow, made of what the coordinator says now and then.

It says of each job that takes part what that has used so far, and hands out the turns that have ended, each once. Both
begin anew when a coordinator does, except for what the jobs count themselves (steps, bytes moved). Here the growth
between two looks is added up, so that a counter outlives the coordinator that said it. What that cannot save:

    what happened between the last look and the death of a coordinator: turns, device time, time waited
    the last steps of a job that joined before the first look and ended between two looks
    bytes that a job moved between the last look and its end (those of the device are counted by turn)
    whatever `hocket web` itself had counted when it ended: the counters then begin with what the jobs say

Pure: no clock, no socket. Not thread-safe.
"""

from __future__ import annotations

import bisect
import dataclasses
from typing import Any

KEPT_S = 600.0  # a job's counters are told for so long after it was last seen
MOST_JOBS = 1000  # and of so many at most: the first to go is the one gone longest

# Of a job: what is counted -> its name in the coordinator's answer.
OF_A_JOB = {
    "steps": "steps",
    "turns": "turns",
    "device_s": "held_s",
    "waited_s": "waited_s",
    "spilled": "spilled_total",
    "restored": "restored_total",
}
# The same, of its allocator; an older coordinator, or job, does not say.
OF_AN_ALLOCATOR = {
    "allocations": "allocations",
    "planned": "planned",
    "deviated": "deviated",
    "survived": "survived",
    "foreseen": "foreseen",
    "adopted": "adopted_total",
}
# Of a job's `moves`, of those whose time was foretold.
OF_A_MOVE = ("s", "foretold_s")
# Of an estimate in a job's `measured`.
OF_AN_ESTIMATE = ("foretold", "inside", "above")
COUNTED_BY_THE_JOB = ("steps", "spilled", "restored", *OF_AN_ALLOCATOR)  # and told again to the next coordinator
ALL_OF_A_JOB = (*OF_A_JOB, *OF_AN_ALLOCATOR)

Key = tuple[str, int | None, str]  # a job's name, its user's uid (None: an older coordinator does not say), its device


@dataclasses.dataclass
class Histogram:
    """How often a duration was at most each of ``bounds`` seconds."""

    bounds: tuple[float, ...]
    counts: list[int] = dataclasses.field(init=False)  # by bound; the last one: longer than all
    sum: float = 0.0

    def __post_init__(self) -> None:
        self.counts = [0] * (len(self.bounds) + 1)

    def add(self, seconds: float) -> None:
        self.counts[bisect.bisect_left(self.bounds, seconds)] += 1
        self.sum += seconds

    def cumulative(self) -> list[tuple[str, int]]:
        """As Prometheus has it: (upper bound, how many are at most that)."""
        total, buckets = 0, []
        for bound, count in zip((*map(str, self.bounds), "+Inf"), self.counts, strict=True):
            total += count
            buckets.append((bound, total))
        return buckets


@dataclasses.dataclass
class OfADevice:
    turns: int = 0
    deaths: int = 0
    spilled: int = 0  # bytes
    restored: int = 0
    beside: int = 0  # bytes that moved for others while a job used its turn
    beside_s: float = 0.0  # that these took of the link
    turn_s: Histogram = dataclasses.field(default_factory=lambda: Histogram((0.001, 0.01, 0.1, 1, 10, 60, 600)))
    hand_over_s: Histogram = dataclasses.field(
        default_factory=lambda: Histogram((0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10))
    )


@dataclasses.dataclass
class OfAJob:
    """Totals of all jobs of a user that have had this name on this device, one after the other."""

    totals: dict[str, float] = dataclasses.field(default_factory=lambda: dict.fromkeys(ALL_OF_A_JOB, 0))
    estimates: dict[tuple[str, str], float] = dataclasses.field(default_factory=dict)  # (time, of OF_AN_ESTIMATE)
    moves: dict[tuple[str, str], float] = dataclasses.field(default_factory=dict)  # (spill or restore, of OF_A_MOVE)
    seen: float = 0.0  # seconds


@dataclasses.dataclass
class _Known:
    """A job as it was last seen."""

    pid: int | None = None  # None: known from its turns only
    stale: bool = False  # it was seen under an earlier coordinator
    seen: float = 0.0  # seconds
    last: dict[str, float] = dataclasses.field(default_factory=lambda: dict.fromkeys(ALL_OF_A_JOB, 0))
    by_turns: dict[str, float] = dataclasses.field(default_factory=dict)  # what its ended turns come to
    estimates: dict[tuple[str, str], float] = dataclasses.field(default_factory=dict)
    moves: dict[tuple[str, str], float] = dataclasses.field(default_factory=dict)


def _growth(last: dict[Any, float], key: Any, value: float) -> float:
    """Since ``last``, which is kept. Less than before: it began anew."""
    before = last.get(key, 0)
    last[key] = value
    return value - before if value >= before else value


def key_of(job: dict[str, Any]) -> Key:
    """Of a job or of a turn: under the daemon of all users, two of them may have jobs of one name."""
    return job["name"], job.get("user"), job["device"]


class Counts:
    def __init__(self) -> None:
        self.jobs: dict[Key, OfAJob] = {}
        self.devices: dict[str, OfADevice] = {}
        self.restarts = 0  # of the coordinator
        self._epoch: int | None = None
        self._known: dict[int, _Known] = {}
        self._links: dict[tuple[str, str], float] = {}  # (device's uuid, what): as it was last seen

    def saw(self, status: dict[str, Any], turns: list[dict[str, Any]], now: float) -> None:
        """One look: a coordinator's status, and the turns that have ended since the last look, at ``now`` seconds."""
        epoch = status["daemon"]["epoch"]
        if epoch != self._epoch:
            self.restarts += self._epoch is not None
            self._epoch = epoch
            self._links.clear()
            for known in self._known.values():
                known.stale = True
        for device in status["devices"]:
            self._saw_device(device)
        for job in status["jobs"]:
            self._saw_job(job, now)
        for turn in turns:
            self._saw_turn(turn, now)
        self._forget({job["id"] for job in status["jobs"]}, now)

    def _saw_device(self, device: dict[str, Any]) -> None:
        uuid = device["uuid"]
        counted = self.devices.setdefault(uuid, OfADevice())
        if link := device.get("link"):  # an older coordinator does not say
            counted.beside += int(_growth(self._links, (uuid, "beside_bytes"), link["beside_bytes"]))
            counted.beside_s += _growth(self._links, (uuid, "beside_s"), link["beside_s"])

    def _saw_job(self, job: dict[str, Any], now: float) -> None:
        known = self._known.get(job["id"])
        if known is None or known.pid not in (None, job["pid"]):
            known = self._known[job["id"]] = _Known()
        if known.stale:  # it has come back to another coordinator
            for what in ALL_OF_A_JOB:
                if what not in COUNTED_BY_THE_JOB:
                    known.last[what] = 0
            known.by_turns = {"steps": known.last["steps"]}
            known.estimates.clear()
            known.moves.clear()
            known.stale = False
        known.pid = job["pid"]
        key = key_of(job)
        allocator = job.get("allocator") or {}
        counted = {what: job[name] for what, name in OF_A_JOB.items()}
        counted |= {what: allocator[name] for what, name in OF_AN_ALLOCATOR.items() if name in allocator}
        self._grow(key, known, counted, now)
        moves = self.jobs[key].moves
        for move, record in job.get("moves", {}).items():
            for what in OF_A_MOVE:
                moves[move, what] = moves.get((move, what), 0) + _growth(
                    known.moves, (move, what), record["timed"][what]
                )
        totals = self.jobs[key].estimates
        for time, estimate in job.get("measured", {}).items():
            for what in OF_AN_ESTIMATE:
                if estimate is not None and what in estimate:
                    grown = _growth(known.estimates, (time, what), estimate[what])
                    totals[time, what] = totals.get((time, what), 0) + grown

    def _saw_turn(self, turn: dict[str, Any], now: float) -> None:
        seconds = (turn["end_ns"] - turn["start_ns"]) / 1e9
        device = self.devices.setdefault(turn["device"], OfADevice())
        device.turns += 1
        device.deaths += bool(turn["died"])
        device.spilled += turn["spilled"]
        device.restored += turn["restored"] + turn.get("ahead", 0)
        device.turn_s.add(seconds)
        device.hand_over_s.add(turn["hand_over_ns"] / 1e9)
        # A job may have come and gone, or made its last steps, since the last look.
        known = self._known.get(turn["job"])
        if known is None or known.stale:
            known = self._known[turn["job"]] = _Known()
        for what, amount in (("steps", turn["steps"]), ("turns", 1), ("device_s", seconds)):
            known.by_turns[what] = known.by_turns.get(what, 0) + amount
        self._grow(key_of(turn), known, known.by_turns, now)

    def _grow(self, key: Key, known: _Known, values: dict[str, float], now: float) -> None:
        series = self.jobs.setdefault(key, OfAJob())
        series.seen = known.seen = now
        for what, value in values.items():
            series.totals[what] += max(0, value - known.last[what])
            known.last[what] = max(value, known.last[what])

    def _forget(self, present: set[int], now: float) -> None:
        self._known = {
            job: known
            for job, known in self._known.items()
            if job in present or (known.stale and now - known.seen <= KEPT_S)
        }
        kept = [(key, series) for key, series in self.jobs.items() if now - series.seen <= KEPT_S]
        kept.sort(key=lambda entry: entry[1].seen)
        self.jobs = dict(kept[-MOST_JOBS:])
