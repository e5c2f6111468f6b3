"""The share of the device that two busy jobs get under the policy ``fair``, against the one their weights ask for."""

from __future__ import annotations

import contextlib
import os
import pathlib
import subprocess
import sys

from tests.bench import harness

DEVICE_MS = 10.0


def _shares(light: int, window: float, repeats: int) -> list[float]:
    """The share of the lighter of two jobs with weights light : 100 - light, per window, in percent."""
    with harness.runtime_folder() as folder, contextlib.ExitStack() as stack:
        environment = {"HOCKET_RUNTIME_DIR": folder}

        def worker(name: str, weight: int) -> harness.Worker:
            program = [sys.executable, "-m", "tests.bench.workload", "hocket", "--kind", "cnn", "--name", name]
            program += ["--device-ms", str(DEVICE_MS), "--weight", str(weight)]
            command = harness.emulate("bench-share", "4GiB", program, timing=True)
            return stack.enter_context(harness.Worker(command, environment, pathlib.Path(folder) / f"{name}.log"))

        jobs = [worker("light", light), worker("heavy", 100 - light)]
        for job in jobs:
            job.ask(steps=2)
        subprocess.run(
            [harness.hocket(), "policy", "fair"], env={**os.environ, **environment}, check=True, capture_output=True
        )
        shares = []
        for _ in range(repeats):
            for job in jobs:
                job.begin(seconds=window)
            steps = [job.end()["steps"] for job in jobs]
            shares.append(100 * steps[0] / sum(steps))
        return shares


def run(quick: bool) -> None:
    window, repeats = harness.extent(quick, usual=(10.0, 5), brief=(6.0, 5), least=(1.0, 2))
    figures = []
    for light in (10, 25):
        off = [abs(share - light) for share in _shares(light, window, repeats)]
        goal = max(1.0, 100 * DEVICE_MS / 1e3 / window)
        text = f"share of two busy jobs, asked {light}:{100 - light}, over {window:g} s: off by"
        figures.append(harness.figure(f"share_{light}", text, off, goal, "what the weights ask for", unit="points"))
        harness.record("share", figures)
