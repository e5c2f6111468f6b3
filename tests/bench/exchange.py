"""A hand-over between jobs of which one must go for another to come back: from the end of the one's step to the first
kernel of the other's, against plain pinned copies of as many bytes, both ways at once. Between two jobs the bytes move
at the hand-over; between three of which two fit, while the one before has its step."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

from tests.bench import harness, sizes
from tests.bench.sizes import CONTEXT, GIB

AHEAD = 4 * GIB  # of three jobs
PATIENCE = 60  # seconds
STEPS = (0.5, 1.1, 1.8, 0.8)  # seconds, in turn: no wait is like the last, so no job foresees its own


def jobs_of(environment: dict[str, str]) -> list[dict[str, Any]]:
    """What the coordinator says of each."""
    command = [harness.hocket(), "status", "--json"]
    said = subprocess.run(command, env={**os.environ, **environment}, capture_output=True, check=True).stdout
    return json.loads(said)["jobs"]


def await_job(environment: dict[str, str], what: Callable[[dict[str, Any]], bool]) -> None:
    """Until ``what`` holds of a job; RuntimeError with what the coordinator says if that takes too long."""
    end = time.monotonic() + PATIENCE
    while not any(map(what, jobs := jobs_of(environment))):
        if time.monotonic() > end:
            raise RuntimeError(f"waited {PATIENCE} s in vain for a job: {json.dumps(jobs)}")


def await_rest(environment: dict[str, str]) -> None:
    """Until no more bytes go: two looks in a row see as many on the host."""
    seen, before = [job["spilled"] for job in jobs_of(environment)], None
    while seen != before:
        seen, before = [job["spilled"] for job in jobs_of(environment)], seen


def hand_overs(size: int, rounds: int, jobs: int = 2) -> list[dict[str, float]]:
    """``jobs`` of ``size`` bytes each on a device that holds all but one, and a quarter; each of ``rounds``
    hand-overs. With more than two, who is next has his bytes before the step of the one before ends."""
    with harness.runtime_folder() as folder, contextlib.ExitStack() as stack:
        # Each step is a turn.
        environment = {"HOCKET_RUNTIME_DIR": folder, "HOCKET_POLICY": "fifo", "HOCKET_SWITCH_SHARE": "1"}
        environment["HOCKET_LINK_BOUND"] = "1"  # a step here lasts until the others' bytes have moved
        environment["HOCKET_HOST_BUDGET"] = str(2 * size)  # of which no page is touched
        if jobs > 2:  # all that comes back must have room before its turn
            environment["HOCKET_HEADROOM"] = "0"

        def worker(name: str) -> harness.Worker:
            program = [sys.executable, "-m", "tests.bench.exchange_job", name, str(size)]
            command = harness.emulate("bench-exchange", harness.Filled.EMULATED_MEMORY, program, timing=True)
            return stack.enter_context(harness.Worker(command, environment, pathlib.Path(folder) / f"{name}.log"))

        names = "abc"[:jobs]
        workers = {name: worker(name) for name in names}
        for each in workers.values():
            each.end()
        harness.coordinator_in_real_time(environment)
        filled = stack.enter_context(harness.Filled("bench-exchange", folder))
        filled.leave((jobs - 1) * size + size // 4)
        workers["a"].ask()  # it is in its step
        # Who ends a step before somebody waits would begin its next one at once.
        for name in names[1:]:
            workers[name].begin()
            await_job(environment, lambda job, name=name: job["name"] == name and job["state"] == "waits")
        measured = []
        begins = time.monotonic()
        for turn in range(rounds):
            # A step's length is what is played here; nobody synchronises by it.
            time.sleep(max(0.0, begins + STEPS[turn % len(STEPS)] - time.monotonic()))
            begins = time.monotonic()
            last, holds = names[turn % jobs], names[(turn + 1) % jobs]
            if jobs > 2 and turn > jobs:  # each has made its bytes
                await_job(environment, lambda job, name=holds: job["name"] == name and job["spilled"] == 0)
            workers[last].begin()  # ends its step, and waits for the next
            begun = workers[holds].end()
            moved = begun["restored"]
            if jobs == 2:  # what goes for the headroom would share the link with the plain copies
                await_rest(environment)
            workers[holds].begin(plain=moved or size * 3 // 4)  # none in its first turn
            plain = workers[holds].end()
            measured.append({**begun, **plain})
        for turn in range(rounds, rounds + jobs):
            if turn > rounds:
                workers[names[turn % jobs]].end()
            workers[names[turn % jobs]].close()
        return measured


def _fitting(usual: list[int], jobs: int) -> list[int]:
    return sizes.fitting(
        f"exchange of {jobs} jobs",
        usual,
        sizes.free("bench-exchange", harness.Filled.EMULATED_MEMORY),
        lambda size: (jobs - 1) * size + size // 4 + (jobs + 1) * CONTEXT,  # and the ballast's
        lambda size: jobs * (size + size // 2),  # what was evicted, and the pieces that plain copies use
    )


def run(quick: bool) -> None:
    figures, raw = [], {}
    usual, count, count_of_three = harness.extent(
        quick, usual=([GIB // 4, GIB, 4 * GIB, 16 * GIB], 13, 16), brief=([4 * GIB], 8, 11), least=([GIB], 5, 9)
    )
    for size in _fitting(usual, 2):
        rounds = hand_overs(size, count)[3:]  # in the first, host memory is taken and pinned
        gib = size / GIB
        raw[f"{gib:g}"] = rounds
        figures.append(
            harness.figure(
                f"exchange_{gib:g}",
                f"hand-over of two jobs of {gib:g} GiB, {0.75 * gib:g} GiB too many for the device: rate of the bytes "
                "that come back, the headroom's with them",
                [each["plain"] / each["took"] for each in rounds],
                0.9,
                "plain pinned copies of as many bytes, both ways at once",
                at_least=True,
            )
        )
        harness.record("exchange", figures, extra={"raw": raw})  # there, should the time be up in what follows
    size = _fitting([GIB if quick else AHEAD], 3)[0]
    rounds = hand_overs(size, count_of_three, jobs=3)[6:]
    raw["three"] = rounds
    gib = size / GIB
    figures.append(
        harness.figure(
            sizes.name("exchange_ahead", size, AHEAD),
            f"hand-over of three jobs of {gib:g} GiB of which two fit, steps longer than the copies, no headroom: time",
            [each["took"] / each["plain"] for each in rounds],
            0.1,
            "plain pinned copies of as many bytes as came back, both ways at once",
        )
    )
    harness.record("exchange", figures, extra={"raw": raw})
