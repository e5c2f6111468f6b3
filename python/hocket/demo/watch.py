"""What the coordinator says while programs run: how far they are, and what is where on the device."""

from __future__ import annotations

import dataclasses
import subprocess
import time
from collections.abc import Callable
from typing import Any

from hocket import _coordinator
from hocket.errors import HocketError

PERIOD = 0.1  # seconds between two looks


@dataclasses.dataclass(frozen=True)
class Sample:
    """Device memory at one moment, in bytes."""

    time: float  # seconds since the epoch
    resident: dict[str, int]  # job: persistent bytes on the device
    spilled: dict[str, int]  # job: bytes on the host
    arena: int  # transient memory, common to all jobs


@dataclasses.dataclass(frozen=True)
class Turn:
    """One turn of one job."""

    job: str
    start: float
    end: float
    steps: int
    restored: int
    spilled: int
    hand_over: float  # seconds from the end of the turn before to this one's first step


def ask(command: str, **arguments: Any) -> dict[str, Any] | None:
    """The coordinator's answer, or None where none runs (yet) or it is too busy."""
    try:
        return _coordinator.ask(command, timeout_ms=10_000, **arguments)
    except HocketError:
        return None


def look() -> tuple[Sample, dict[str, int]] | None:
    """A sample, and the steps that each job has done."""
    status = ask("status")
    if status is None:
        return None
    jobs = status["jobs"]
    sample = Sample(
        time=time.monotonic(),
        resident={job["name"]: job["persistent"] for job in jobs},
        spilled={job["name"]: job["spilled"] for job in jobs},
        arena=sum(device["arena"] for device in status["devices"]),
    )
    return sample, {job["name"]: job["steps"] for job in jobs}


def until_all_have_joined(processes: dict[str, subprocess.Popen[str]]) -> None:
    """Gives a job no turns until the others have joined, too: then they want the GPU at the same time, however long one
    of them took to start. Returns, too, when one has ended."""
    asked: set[str] = set()
    while all(process.poll() is None for process in processes.values()):
        seen = look()
        joined = processes.keys() & seen[1].keys() if seen else set()
        if joined == processes.keys():
            break
        for name in joined - asked:
            asked.add(name)
            ask("pause", job=name)  # unanswered: a busy coordinator may still do it
        time.sleep(PERIOD)
    while asked := {name for name in asked if processes[name].poll() is None and ask("resume", job=name) is None}:
        time.sleep(PERIOD)


def until_end(processes: dict[str, subprocess.Popen[str]], progress: Callable[[dict[str, int]], None]) -> list[Sample]:
    """Looks until all have ended; returns what was seen."""
    samples = []
    while any(process.poll() is None for process in processes.values()):
        seen = look()
        if seen is not None:
            samples.append(seen[0])
            progress(seen[1])
        time.sleep(PERIOD)
    return samples


def turns(since: int = 0) -> list[Turn]:
    """The turns that the coordinator remembers, in order, from the one with index ``since`` on."""
    found: list[Turn] = []
    while (page := ask("turns", since=since)) and page["turns"]:
        found += [_turn(record) for record in page["turns"]]
        since = page["next"]
    return found


def _turn(record: dict[str, Any]) -> Turn:
    return Turn(
        job=record["name"],
        start=record["start_ns"] / 1e9,
        end=record["end_ns"] / 1e9,
        steps=record["steps"],
        restored=record["restored"] + record.get("ahead", 0),
        spilled=record["spilled"],
        hand_over=record["hand_over_ns"] / 1e9,
    )
