"""From the grant of the turn to the first kernel of a job whose bytes had been moved to the host, against a plain
pinned copy of as many bytes in the same step. And of one that needs two thirds of them later in its step.

How long the other one keeps the turn is the policy's affair (it waits for his next step), and not measured here.
"""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import subprocess
import sys
import time
from typing import Any

from tests.bench import harness, sizes
from tests.bench.sizes import CONTEXT, GIB

USUAL = 10 * GIB


def run(quick: bool) -> None:
    wanted, repeats = harness.extent(quick, usual=(USUAL, 7), brief=(USUAL, 6), least=(GIB, 2))
    size = sizes.fitting(
        "evicted",
        [wanted],
        sizes.free("bench-evicted", harness.Filled.EMULATED_MEMORY),
        lambda size: size + size // 8 + 3 * CONTEXT,  # two jobs and the ballast
        lambda size: size + size // 4,  # what was evicted, and the piece that plain copies use
    )[0]
    text = f"grant of the turn to the first kernel of an evicted {sizes.in_words(size)} job"
    plain = "a plain pinned copy of the bytes that came back"
    stays = _measure("stays", size, repeats)
    figures = [harness.figure(sizes.name("evicted", size, USUAL), text, _ratios(stays, "first_kernel"), 1.1, plain)]
    harness.record("evicted", figures, extra={"raw": {"stays": stays}})  # there, should the time be up in what follows
    follows = _measure("follows", size, repeats)
    figures += [
        harness.figure(
            sizes.name("evicted_in_order", size, USUAL),
            f"{text}, two thirds of which is an optimizer's state that follows (restore_in_order)",
            _ratios(follows, "first_kernel"),
            0.4,
            plain,
        ),
        harness.figure(
            sizes.name("evicted_in_order_all", size, USUAL),
            "the same to its optimizer's step, which waits for what followed",
            _ratios(follows, "second_part"),
            1.1,
            plain,
        ),
    ]
    harness.record("evicted", figures, extra={"raw": {"stays": stays, "follows": follows}})


def _ratios(measured: list[dict[str, Any]], until: str) -> list[float]:
    return [(each[until] - each["granted"]) / each["plain"] for each in measured]


def _measure(role: str, size: int, repeats: int) -> list[dict[str, Any]]:
    """What the two jobs said of each time that the bytes came back."""
    measured = []
    with harness.runtime_folder() as folder, contextlib.ExitStack() as stack:

        def worker(role: str) -> harness.Worker:
            program = [sys.executable, "-m", "tests.bench.evicted_job", role, str(size)]
            command = harness.emulate("bench-evicted", harness.Filled.EMULATED_MEMORY, program, timing=True)
            log = pathlib.Path(folder) / f"{role}.log"
            return stack.enter_context(harness.Worker(command, {"HOCKET_RUNTIME_DIR": folder}, log))

        stays, pushes = worker(role), worker("pushes")
        for each in (stays, pushes):
            each.end()
        stack.enter_context(harness.Filled("bench-evicted", folder)).leave(size // 8)
        for _ in range(repeats + 2):
            pushes.ask()  # it is in its step, and waits for room until the other stands at its door
            stays.begin()
            pushes.end()
            measured.append(stays.end())
        trace = pathlib.Path(folder) / "trace"
        command = [harness.hocket(), "trace", "-o", str(trace)]
        subprocess.run(command, env={**os.environ, "HOCKET_RUNTIME_DIR": folder}, check=True, capture_output=True)
        turns = [turn for turn in json.loads(trace.read_text())["turns"] if turn["name"] == role]
    ahead = time.time() - time.monotonic()  # the trace has Unix time
    for each in measured[:-1]:
        each["granted"] = max(t for turn in turns if (t := turn["start_ns"] / 1e9 - ahead) < each["first_kernel"])
    # Before the first, host memory is taken and pinned; the turn of the last has not ended, and is not in the trace.
    return [each for each in measured[1:-1] if each["restored"] > size // 2]
