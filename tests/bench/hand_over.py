"""A hand-over that moves no bytes against a raw relay of its messages, and a boundary while nobody waits."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess

from tests.bench import harness

BUILD = harness.ROOT / "build" / "bench"


def build(*targets: str) -> None:
    """Compiles the client's benchmarks, which a package does not contain, and the coordinator beside them."""
    configure = ["cmake", "-S", harness.ROOT, "-B", BUILD, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release"]
    configure += ["-DHOCKET_TESTS=OFF", "-DHOCKET_BENCHMARKS=ON", "-DHOCKET_PYTHON="]
    for command in (configure, ["cmake", "--build", BUILD, "--target", *targets]):
        run = subprocess.run([str(part) for part in command], capture_output=True, text=True)
        if run.returncode != 0:
            raise RuntimeError(f"{command[0]} failed:\n{(run.stdout + run.stderr)[-3000:]}")


def measure(program: str, rounds: int) -> dict[str, list[float]]:
    """What ``program`` prints: lists of the same length, one number for each of ``rounds`` blocks."""
    daemon: pathlib.Path = BUILD / "coordinator" / "hocketd"
    run = subprocess.run(
        [BUILD / "csrc" / "client" / program, str(rounds)],
        env={**os.environ, "HOCKET_DAEMON": str(daemon)},
        capture_output=True,
        text=True,
    )
    if run.returncode != 0:
        raise RuntimeError(f"{program} ended with status {run.returncode}:\n{run.stderr[-3000:]}")
    return json.loads(run.stdout)


def ratios(measured: dict[str, list[float]], above: str, below: str) -> list[float]:
    return [a / b for a, b in zip(measured[above], measured[below], strict=True)]


def run(quick: bool) -> None:
    build("client_hand_over_bench", "client_boundary_bench", "hocketd")
    rounds = 5 if quick else 20
    turns = measure("client_hand_over_bench", rounds)
    ends = measure("client_boundary_bench", rounds)
    relay = "the same two messages relayed raw through one process, same sockets"
    figures = [
        harness.figure(
            "hand_over_p50",
            "end of a turn to the next job's start, nothing to move, p50",
            ratios(turns, "hand_over_p50_ns", "relay_p50_ns"),
            2.0,
            f"{relay}, p50",
        ),
        harness.figure(
            "hand_over_p99",
            "the same, p99",
            ratios(turns, "hand_over_p99_ns", "relay_p99_ns"),
            2.0,
            f"{relay}, p99",
        ),
        harness.figure(
            "boundary",
            "both ends of a step while nobody waits, CPU time",
            ratios(ends, "boundary_ns", "atomics_ns"),
            4.0,
            "two atomic additions",
        ),
    ]
    harness.record("hand_over", figures, "the CPU", {"raw": {**turns, **ends}})
