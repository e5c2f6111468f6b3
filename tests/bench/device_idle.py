"""How long the device idles when the turn passes between two jobs whose bytes are all there: from the end of the one's
last kernel to the begin of the other's first, with a drain.

Each step is one kernel of a known time, and a turn of its own where both jobs have another one: so what they take
together beyond their kernels is the device's idleness, and the number of turns says how often. A kernel's own time is
that of many queued behind each other, taken before and after each block.

With interprocess events in place of the drain 50 us are the goal: Hocket has no such hand-over, and the page says why.

Beside it, without a goal: the same between two processes without Hocket that tell each other in memory that they share,
and ask for it again and again. So much the device and the driver take themselves.
"""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import statistics
import subprocess
import sys

from tests.bench import harness

KERNEL_MS = 2.0
GOAL_US = 200.0
EVENTS = harness.not_measured(
    "device_idle_events",
    "the same with interprocess events in place of the drain (goal: <= 50 us)",
    "kernels queued behind each other in one job",
    "Hocket drains the device before it passes a turn on: a job that is killed could take along one that waits on "
    "the device for its event (docs/decisions/0046)",
)


def _turns(environment: dict[str, str]) -> int:
    command = [harness.hocket(), "status", "--json"]
    said = subprocess.run(command, env={**os.environ, **environment}, capture_output=True, check=True).stdout
    return sum(job["turns"] for job in json.loads(said)["jobs"])


def _without_hocket(kernel: float, rounds: int, repeats: int) -> list[float]:
    """Microseconds that the device idles each time that it passes from one plain process to the other."""
    idle = []
    with harness.runtime_folder() as folder, contextlib.ExitStack() as stack:
        workers = []
        for number in (0, 1):
            program = [sys.executable, "-m", "tests.bench.device_switch_job", str(number), f"{folder}/turn"]
            command = harness.emulate("bench-device-switch", "4GiB", [*program, str(KERNEL_MS)], timing=True)
            workers.append(stack.enter_context(harness.Worker(command, {}, pathlib.Path(folder) / f"{number}.log")))
        for _ in range(repeats + 1):
            for worker in workers:
                worker.begin(rounds=rounds)
            blocks = [worker.end() for worker in workers]
            spent = max(block["ended"] for block in blocks) - min(block["began"] for block in blocks)
            idle.append(1e6 * (spent - 2 * rounds * kernel) / (2 * rounds))
    return idle[1:]


def run(quick: bool) -> None:
    steps, repeats = harness.extent(quick, usual=(400, 9), brief=(200, 5), least=(100, 6))
    idle, raw = [], []
    with harness.runtime_folder() as folder, contextlib.ExitStack() as stack:
        environment = {"HOCKET_RUNTIME_DIR": folder, "HOCKET_POLICY": "round-robin"}

        def worker(name: str) -> harness.Worker:
            program = [sys.executable, "-m", "tests.bench.device_idle_job", name, str(KERNEL_MS)]
            command = harness.emulate("bench-device-idle", "4GiB", program, timing=True)
            return stack.enter_context(harness.Worker(command, environment, pathlib.Path(folder) / f"{name}.log"))

        jobs = [worker(name) for name in ("a", "b")]
        for job in jobs:
            job.ask(kernels=20)
        harness.coordinator_in_real_time(environment)  # as its jobs are
        for _ in range(repeats + 1):
            before = jobs[0].ask(kernels=50)["kernel_s"]
            turns = _turns(environment)
            for job in jobs:
                job.begin(steps=steps)
            blocks = [job.end() for job in jobs]
            turns = _turns(environment) - turns
            kernel = (before + jobs[1].ask(kernels=50)["kernel_s"]) / 2
            spent = max(block["ended"] for block in blocks) - min(block["began"] for block in blocks)
            raw.append({"kernel_s": kernel, "turns": turns, "blocks": blocks, "spent_s": spent})
            idle.append(1e6 * (spent - 2 * steps * kernel) / max(1, turns))
    plain = _without_hocket(raw[-1]["kernel_s"], steps // 4, repeats)
    text = "the device idles at a hand-over without bytes to move, with a drain"
    baseline = "kernels queued behind each other in one job; two processes without Hocket that share memory idle "
    baseline += f"{statistics.median(plain):.0f} us [{min(plain):.0f} .. {max(plain):.0f}]"
    figures = [harness.figure("device_idle", text, idle[1:], GOAL_US, baseline, unit="us")]
    extra = {"kernel_ms": KERNEL_MS, "steps": steps, "raw": raw[1:], "without_hocket_us": plain}
    harness.record("device_idle", figures, extra=extra | {"not_measured": [EVENTS]})
