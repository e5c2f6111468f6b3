"""What Prometheus is told of the node. The names and units below are kept; docs/user-guide.md lists them.

Labels: ``device`` is the device's uuid, ``name`` a job's name (not ``job``, which Prometheus uses itself), ``user``
says whose job it is.
"""

from __future__ import annotations

import pwd
from collections.abc import Iterable, Iterator
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector, CollectorRegistry

from hocket._version import __version__
from hocket.web.counts import Counts, Key, key_of
from hocket.web.node import Look

STATES = ("holds", "waits", "idle", "paused", "stopped", "gone")
OF_A_JOB = ("name", "user", "device")

# name without _total: (help, what counts.OfAJob has)
JOB_COUNTERS = {
    "hocket_job_steps": ("Training steps completed.", "steps"),
    "hocket_job_turns": ("Turns given.", "turns"),
    "hocket_job_device_seconds": ("Time with the turn, the present turn included.", "device_s"),
    "hocket_job_waited_seconds": ("Time waited for turns, the present wait included.", "waited_s"),
    "hocket_job_spilled_bytes": ("Bytes moved from the device to the host.", "spilled"),
    "hocket_job_restored_bytes": ("Bytes moved from the host back to the device.", "restored"),
    "hocket_job_step_allocations": ("Allocations of device memory in steps.", "allocations"),
    "hocket_job_planned_allocations": ("Of these, those that a plan placed.", "planned"),
    "hocket_job_deviating_allocations": ("Of these, those that deviated from the plan that was followed.", "deviated"),
    "hocket_job_survived_bytes": ("Bytes that outlived the step they were allocated in.", "survived"),
    "hocket_job_foreseen_bytes": ("Of these, those in persistent memory from the beginning.", "foreseen"),
    "hocket_job_adopted_bytes": ("Bytes of chunks that left the lane's arena for survivors.", "adopted"),
}
# name without _total: (help, what counts.OfADevice has)
DEVICE_COUNTERS = {
    "hocket_turns": ("Turns that have ended.", "turns"),
    "hocket_died_in_turn": ("Turns that ended with the death of their job.", "deaths"),
    "hocket_spilled_bytes": ("Bytes moved to the host to make room for turns that have ended.", "spilled"),
    "hocket_restored_bytes": ("Bytes moved back to the device for turns that have ended.", "restored"),
    "hocket_link_beside_bytes": ("Moved for other jobs while one used its turn.", "beside"),
    "hocket_link_beside_seconds": ("That the link was busy for others while a job used its turn.", "beside_s"),
}
DEVICE_HISTOGRAMS = {
    "hocket_turn_seconds": ("How long turns lasted.", "turn_s"),
    "hocket_hand_over_seconds": (
        "From the moment that a job asks and the device is free until the job runs, restoring included.",
        "hand_over_s",
    ),
}
# name: (help, key in a job of `hocket status --json`, factor to the unit in the name)
JOB_GAUGES = {
    "hocket_job_step_seconds": ("Time of a step, running average.", "step_time_ms", 1e-3),
    "hocket_job_slowdown_ratio": (
        "The last ten minutes over what they would have taken alone; only where known.",
        "slowdown",
        1,
    ),
    "hocket_job_remaining_seconds": ("Time to go, at the pace so far; only where known.", "to_go_s", 1),
    "hocket_job_overdue": ("1: has had the turn past its limit while others wait.", "overdue", 1),
    "hocket_job_weight": ("Its weight: the share of the device under the policy fair.", "weight", 1),
}


# name without _total: (help, what counts.OfAJob.moves has)
MOVES = {
    "hocket_job_move_seconds": ("Time of moves to the host or back, of those whose time was foretold.", "s"),
    "hocket_job_move_foretold_seconds": ("What these were foretold to take.", "foretold_s"),
}
# name without _total: (help, what counts.OfAJob.estimates has)
FORETOLD = {
    "hocket_job_foretold": ("Times that came when there were bounds for them.", "foretold"),
    "hocket_job_foretold_inside": ("Of these, those within both bounds; eight in ten are to be.", "inside"),
    "hocket_job_foretold_above": ("Of these, those above the upper bound; one in ten may be.", "above"),
}


def text(look: Look, counts: Counts, accept: str) -> tuple[bytes, str]:
    """The metrics and their content type, in the format that ``accept`` (a header) prefers."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Node(look, counts))
    encode, kind = choose_encoder(accept)
    return encode(registry), kind


class _Node(Collector):
    def __init__(self, look: Look, counts: Counts) -> None:
        self._look = look
        self._counts = counts

    def collect(self) -> Iterator[Metric]:
        status = self._look.status or {"daemon": None, "devices": [], "jobs": []}
        yield from _coordinator(status["daemon"], self._look.up, self._counts.restarts)
        yield from _devices(status)
        yield from _counted(self._counts)
        yield from _jobs(_one_of_each(status["jobs"]))


def _coordinator(daemon: dict[str, Any] | None, up: bool, restarts: int) -> Iterator[Metric]:
    yield GaugeMetricFamily("hocket_coordinator_up", "1: the coordinator answers.", value=float(up))
    info = GaugeMetricFamily(
        "hocket_coordinator_info", "Always 1; the labels say what runs.", labels=["version", "policy", "web_version"]
    )
    uptime = GaugeMetricFamily("hocket_coordinator_uptime_seconds", "Since the coordinator was started.")
    if daemon:
        info.add_metric([daemon["version"], daemon["policy"], __version__], 1)
        uptime.add_metric([], daemon["uptime_s"])
    yield info
    yield uptime
    yield CounterMetricFamily(
        "hocket_coordinator_restarts", "How often another coordinator was found than before.", value=restarts
    )


def _devices(status: dict[str, Any]) -> Iterator[Metric]:
    info = GaugeMetricFamily("hocket_device_info", "Always 1.", labels=["device", "device_name"])
    capacity = GaugeMetricFamily("hocket_device_capacity_bytes", "Memory of the device.", labels=["device"])
    memory = GaugeMetricFamily(
        "hocket_device_memory_bytes", "Memory of the device by what it is used for.", labels=["device", "kind"]
    )
    waiting = GaugeMetricFamily("hocket_waiting_jobs", "Jobs that wait for the turn.", labels=["device"])
    for device in status["devices"]:
        uuid = device["uuid"]
        info.add_metric([uuid, device["name"]], 1)
        capacity.add_metric([uuid], device["capacity"])
        for kind, key in (("persistent", "persistent"), ("transient", "arena"), ("free", "free")):
            memory.add_metric([uuid, kind], device[key])
        waits = [job for job in status["jobs"] if job["device"] == uuid and job["state"] == "waits"]
        waiting.add_metric([uuid], len(waits))
    yield from (info, capacity, memory, waiting)


def _counted(counts: Counts) -> Iterator[Metric]:
    for name, (help_text, what) in JOB_COUNTERS.items():
        family = CounterMetricFamily(name, help_text, labels=OF_A_JOB)
        for key, job in counts.jobs.items():
            family.add_metric(_labels(key), job.totals[what])
        yield family
    for name, (help_text, what) in FORETOLD.items():
        family = CounterMetricFamily(name, help_text, labels=[*OF_A_JOB, "time"])
        for key, job in counts.jobs.items():
            for (time, counted), total in job.estimates.items():
                if counted == what:
                    family.add_metric([*_labels(key), time], total)
        yield family
    for name, (help_text, what) in MOVES.items():
        family = CounterMetricFamily(name, help_text, labels=[*OF_A_JOB, "move"])
        for key, job in counts.jobs.items():
            for (move, counted), total in job.moves.items():
                if counted == what:
                    family.add_metric([*_labels(key), move], total)
        yield family
    for name, (help_text, what) in DEVICE_COUNTERS.items():
        family = CounterMetricFamily(name, help_text, labels=["device"])
        for uuid, device in counts.devices.items():
            family.add_metric([uuid], getattr(device, what))
        yield family
    for name, (help_text, what) in DEVICE_HISTOGRAMS.items():
        histogram = HistogramMetricFamily(name, help_text, labels=["device"])
        for uuid, device in counts.devices.items():
            durations = getattr(device, what)
            histogram.add_metric([uuid], durations.cumulative(), durations.sum)
        yield histogram


def _jobs(jobs: list[dict[str, Any]]) -> Iterator[Metric]:
    state = GaugeMetricFamily("hocket_job_state", "1 for the state it is in.", labels=[*OF_A_JOB, "state"])
    memory = GaugeMetricFamily(
        "hocket_job_memory_bytes",
        "Memory of a job: persistent on the device, transient peak, spilled to the host.",
        labels=[*OF_A_JOB, "kind"],
    )
    for job in jobs:
        key = _labels(key_of(job))
        for each in STATES:
            state.add_metric([*key, each], float(job["state"] == each))
        for kind in ("persistent", "transient", "spilled"):
            memory.add_metric([*key, kind], job[kind])
    yield from (state, memory)
    for name, (help_text, what, factor) in JOB_GAUGES.items():
        gauge = GaugeMetricFamily(name, help_text, labels=OF_A_JOB)
        for job in jobs:
            if job[what] is not None:
                gauge.add_metric(_labels(key_of(job)), job[what] * factor)
        yield gauge


def _one_of_each(jobs: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """A job that takes no part any more may have the name of one of the same user that does: that one is told."""
    named: dict[Key, dict[str, Any]] = {}
    for job in jobs:
        key = key_of(job)
        if key not in named or named[key]["state"] == "gone":
            named[key] = job
    return list(named.values())


def _labels(key: Key) -> list[str]:
    """The values of ``OF_A_JOB``."""
    name, uid, device = key
    return [name, "" if uid is None else _user(uid), device]


def _user(uid: int) -> str:
    """His name; his uid where the machine knows none."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
