"""A hand-over that moves no bytes against a raw relay of its messages, and a boundary while nobody waits.

Both sides run in C++ (csrc/client/bench) and under real-time scheduling where that is allowed, so that a hand-over is
measured and not the other work of the machine; the record says which.
"""

from __future__ import annotations

import json
import os
import subprocess

from tests.bench import harness


def _measure(program: str, rounds: int) -> dict[str, list[float]]:
    """What ``program`` prints: lists of the same length, one number for each of ``rounds`` blocks."""
    command = harness.undisturbed([harness.binary(program), str(rounds)])
    environment = {"HOCKET_DAEMON": harness.binary("hocketd"), **os.environ}
    said = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if said.returncode:
        raise RuntimeError(f"{' '.join(command)} ended with status {said.returncode}:\n{said.stderr[-3000:]}")
    return json.loads(said.stdout)


def _ratios(measured: dict[str, list[float]], above: str, below: str) -> list[float]:
    return [a / b for a, b in zip(measured[above], measured[below], strict=True)]


def run(quick: bool) -> None:
    rounds = 5 if quick else 20
    turns = _measure("client_hand_over_bench", rounds)
    ends = _measure("client_boundary_bench", rounds)
    relay = "the same two messages relayed raw through one process, same sockets"
    figures = [
        harness.figure(
            f"hand_over_{percentile}",
            f"end of a turn to the next job's start, nothing to move, {percentile}",
            _ratios(turns, f"hand_over_{percentile}_ns", f"relay_{percentile}_ns"),
            2.0,
            f"{relay}, {percentile}",
        )
        for percentile in ("p50", "p99")
    ]
    figures.append(
        harness.figure(
            "boundary",
            "both ends of a step while nobody waits, CPU time",
            _ratios(ends, "boundary_ns", "atomics_ns"),
            5.0,
            "two atomic additions",
        )
    )
    extra = {
        "nanoseconds": {**turns, **ends},
        "speaks_of": ["coordinator", "csrc/client", "csrc/wire"],
    }
    harness.record("hand_over", figures, extra=extra)
