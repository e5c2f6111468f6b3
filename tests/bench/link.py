"""What bytes that move for others cost a holder whose steps copy batches to the device for two thirds of their time.

Three jobs of which two fit: in each of its turns one of the others is copied out and the other in. Its step time
beside that over its step time alone, with the bound of ``hocket policy --link-bound`` and without.
"""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import statistics
import subprocess
import sys
from typing import Any

from tests.bench import harness, sizes
from tests.bench.sizes import CONTEXT, GIB

USUAL = 4 * GIB
BOUND = 0.02
COPIED = GIB // 2  # of each step of the one that copies


def _hocket(environment: dict[str, str], *words: str) -> str:
    command = [harness.hocket(), *words]
    return subprocess.run(command, env={**os.environ, **environment}, check=True, capture_output=True, text=True).stdout


def _beside(environment: dict[str, str]) -> dict[str, Any]:
    status = json.loads(_hocket(environment, "status", "--json"))
    job = next(job for job in status["jobs"] if job["name"] == "copies")
    return {"bytes": status["devices"][0]["link"]["beside_bytes"], **job["link"]}


def run(quick: bool) -> None:
    lengths = harness.extent(quick, usual=(30.0, 10.0, 9), brief=(5.0, 2.0, 5), least=(2.0, 1.0, 2))
    learning, seconds, repeats = lengths
    found: dict[str, list[float]] = {"limited": [], "free": []}
    raw = []
    size = sizes.fitting(
        "link",
        [USUAL],
        sizes.free("bench-link", harness.Filled.EMULATED_MEMORY),
        lambda size: 2 * size + GIB + 4 * CONTEXT,  # three jobs and the ballast
        lambda size: 2 * size,
    )[0]
    with harness.runtime_folder() as folder, contextlib.ExitStack() as stack:
        # Turns are short, so much moves; with the default the bound would seldom be reached.
        environment = {"HOCKET_RUNTIME_DIR": folder, "HOCKET_POLICY": "fifo", "HOCKET_SWITCH_SHARE": "0.2"}
        environment["HOCKET_HOST_BUDGET"] = str(2 * size)  # of which no page is touched

        def worker(name: str, copied: int) -> harness.Worker:
            program = [sys.executable, "-m", "tests.bench.link_job", name, str(size), str(copied)]
            command = harness.emulate("bench-link", harness.Filled.EMULATED_MEMORY, program, timing=True)
            return stack.enter_context(harness.Worker(command, environment, pathlib.Path(folder) / f"{name}.log"))

        copies = worker("copies", COPIED)
        others = [worker(name, 0) for name in ("b", "c")]
        for job in (copies, *others):
            job.end()
        stack.enter_context(harness.Filled("bench-link", folder)).leave(2 * size + GIB)
        for job in (copies, *others):
            job.ask(seconds=0.1)

        def beside(bound: float, seconds: float) -> list[float]:
            _hocket(environment, "policy", "--link-bound", str(bound))
            for job in (*others, copies):
                job.begin(seconds=seconds)
            return [job.end() for job in (*others, copies)][-1]["steps"]

        beside(BOUND, learning)  # in which it is learned
        for turn in range(repeats):
            alone = statistics.mean(copies.ask(seconds=seconds / 3)["steps"])
            for key in ("limited", "free") if turn % 2 == 0 else ("free", "limited"):
                before = _beside(environment)
                steps = beside(BOUND if key == "limited" else 1, seconds)
                after = _beside(environment)
                found[key].append(statistics.mean(steps) / alone)
                moved = after["bytes"] - before["bytes"]
                raw.append({"which": key, "alone": alone, "steps": len(steps), "moved": moved, **after})
    others = "" if size == USUAL else f" ({sizes.in_words(size)} each)"
    text = f"step of a job that copies its batches, while others' bytes{others} move ahead of their turns"
    figures = [
        harness.figure(sizes.name("link_limited", size, USUAL), text, found["limited"], 1 + BOUND, "its step alone"),
        harness.figure(
            sizes.name("link_free", size, USUAL),
            f"{text} as fast as they go",
            found["free"],
            1 + BOUND,
            "its step alone",
        ),
    ]
    harness.record("link", figures, extra={"raw": raw})
