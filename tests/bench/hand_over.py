"""A hand-over that moves no bytes against a raw relay of its messages, and a boundary while nobody waits.

Both sides run in C++ (csrc/client/bench) and under real-time scheduling where that is allowed, so that a hand-over is
measured and not the other work of the machine; the record says which. What ``hocket.steps()`` costs a Python loop is
measured beside it (iterator_job.py).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence

from tests.bench import harness

RELAY = "the same two messages relayed raw through one process, same sockets"
CONNECTED = 1000


def measure(command: Sequence[str]) -> dict[str, list[float]]:
    """What a program prints: lists of the same length, one number for each block."""
    with harness.runtime_folder() as folder:
        environment = {**os.environ, "HOCKET_DAEMON": harness.binary("hocketd"), "HOCKET_RUNTIME_DIR": folder}
        said = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if said.returncode:
        raise RuntimeError(f"{' '.join(command)} ended with status {said.returncode}:\n{said.stderr[-3000:]}")
    return json.loads(said.stdout)


def _ratios(measured: dict[str, list[float]], above: str, below: str) -> list[float]:
    return [a / b for a, b in zip(measured[above], measured[below], strict=True)]


def _hand_overs(turns: dict[str, list[float]]) -> list[harness.Figure]:
    """With the two jobs alone, and with many more connected."""
    of = {"": ("hand_over", "relay"), f", {CONNECTED} jobs connected": ("crowd", "crowd_relay")}
    return [
        harness.figure(
            f"{above}_{percentile}",
            f"end of a turn to the next job's start, nothing to move, {percentile}{more}",
            _ratios(turns, f"{above}_{percentile}_ns", f"{below}_{percentile}_ns"),
            goal,
            f"{RELAY}, {percentile}",
        )
        for more, (above, below) in of.items()
        for percentile, goal in (("p50", 1.3), ("p99", 2.0))
    ]


def run(quick: bool) -> None:
    rounds = harness.extent(quick, usual=20, brief=5, least=5)
    program = [harness.binary("client_hand_over_bench"), str(rounds), str(50 if quick else CONNECTED)]
    turns = measure(harness.undisturbed(program))
    ends = measure(harness.undisturbed([harness.binary("client_boundary_bench"), str(rounds)]))
    job = [sys.executable, "-m", "tests.bench.iterator_job", str(rounds)]
    loops = measure(harness.emulate("bench-iterator", "1GiB", job))
    figures = [
        *_hand_overs(turns),
        harness.figure(
            "coordinator_cpu",
            "the coordinator at 1000 hand-overs in a second",
            [ns / 1e6 * 100 for ns in turns["cpu_ns"]],  # of a millisecond
            5.0,
            "a processor core",
            unit="%",
        ),
        harness.figure(
            "boundary",
            "both ends of a step while nobody waits, CPU time",
            ends["boundary_ns"],
            100.0,
            "a step without Hocket",
            unit="ns",
        ),
        harness.figure(
            "boundary_atomics",
            "the same",
            _ratios(ends, "boundary_ns", "atomics_ns"),
            5.0,
            "two atomic additions",
        ),
        harness.figure(
            "iterator",
            "a pass of `for x in hocket.steps(...)` while nobody waits, more CPU time",
            [a - b for a, b in zip(loops["steps_ns"], loops["plain_ns"], strict=True)],
            1000.0,
            "a pass of `for x in ...`",
            unit="ns",
        ),
    ]
    extra = {
        "nanoseconds": {**turns, **ends, **loops},
        "connected": int(program[-1]),
        "speaks_of": [*harness.COORDINATOR, "csrc/client", "csrc/wire", *harness.PYTHON],
    }
    harness.record("hand_over", figures, extra=extra)
