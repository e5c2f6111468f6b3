"""A hand-over between two jobs of which one must go for the other to come back: from the end of the one's step to the
first kernel of the other's, against plain pinned copies of as many bytes, both ways at once."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile

from tests.bench import harness

GIB = 1 << 30


def await_waiter(environment: dict[str, str]) -> None:
    """Until a job waits for the turn. Who ends a step before that would begin its next one at once."""
    command = [harness.hocket(), "status", "--json"]
    states: list[str] = []
    while "waits" not in states:
        said = subprocess.run(command, env={**os.environ, **environment}, capture_output=True, check=True).stdout
        states = [job["state"] for job in json.loads(said)["jobs"]]


def hand_overs(size: int, rounds: int) -> list[dict[str, float]]:
    """Two jobs of ``size`` bytes each on a device of 1.25 times that; each of ``rounds`` hand-overs."""
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        # Each step is a turn.
        environment = {"HOCKET_RUNTIME_DIR": folder, "HOCKET_POLICY": "fifo", "HOCKET_SWITCH_SHARE": "1"}
        environment["HOCKET_HOST_BUDGET"] = str(2 * size)  # of which no page is touched

        def worker(name: str) -> harness.Worker:
            program = [sys.executable, "-m", "tests.bench.exchange_job", name, str(size)]
            command = harness.emulate("bench-exchange", str(size + size // 4), program, timing=True)
            return stack.enter_context(harness.Worker(command, environment, pathlib.Path(folder) / f"{name}.log"))

        holds, waits = worker("a"), worker("b")
        holds.ask()  # it is in its step
        waits.begin()
        await_waiter(environment)
        measured = []
        for _ in range(rounds):
            holds.begin()  # ends its step, and waits for the next
            begun = waits.end()
            waits.begin(plain=begun["restored"])
            plain = waits.end()
            holds, waits = waits, holds
            measured.append({**begun, **plain})
        holds.close()
        waits.end()
        return measured


def run(quick: bool) -> None:
    if not harness.PLACE.emulated:
        raise RuntimeError("on a GPU the device would have to be filled first; that is not written yet")
    figures, raw = [], {}
    for gib in (1, 4) if quick else (1, 4, 16):
        rounds = hand_overs(gib * GIB, 8 if quick else 13)[3:]  # in the first, host memory is taken and pinned
        raw[gib] = rounds
        moved = 0.75 * gib
        figures.append(
            harness.figure(
                f"exchange_{gib}",
                f"hand-over of two jobs of {gib} GiB, {moved:g} GiB too many for the device: rate of the bytes moved",
                [each["plain"] / each["took"] for each in rounds],
                0.9,
                "plain pinned copies of as many bytes, both ways at once",
                at_least=True,
            )
        )
    harness.record("exchange", figures, extra={"raw": raw})
