"""Trainings that are there at once (workload.py), some under Hocket and some without it, for `makespan`."""

from __future__ import annotations

import contextlib
import pathlib
import sys
import time
from collections.abc import Callable, Sequence

from tests.bench import harness

Found = tuple[dict[str, list[float]], dict[str, int]]


class Device:
    """Starts trainings of one kind on one device; they end with the block in which they were started."""

    def __init__(
        self, stack: contextlib.ExitStack, folder: str, training: Sequence[str], name: str, memory: str
    ) -> None:
        self._stack, self._folder, self._training, self._name, self._memory = stack, folder, training, name, memory

    def start(self, mode: str, number: int) -> harness.Worker:
        """``mode``: ``hocket`` or ``plain``."""
        program = [sys.executable, "-m", "tests.bench.workload", mode, "--name", f"job-{number}", *self._training]
        command = harness.emulate(self._name, self._memory, program, timing=True)
        log = pathlib.Path(self._folder) / f"{mode}-{number}.log"
        return self._stack.enter_context(harness.Worker(command, {"HOCKET_RUNTIME_DIR": self._folder}, log))


def run(workers: Sequence[harness.Worker], **block: float) -> float:
    """Seconds until all have done their steps, all at once. (A worker's own clock starts when it reads the request.)"""
    begin = time.perf_counter()
    for worker in workers:
        worker.begin(**block)
    for worker in workers:
        worker.end()
    return time.perf_counter() - begin


def makespans(
    folder: str,
    jobs: Sequence[harness.Worker],
    plain: Sequence[harness.Worker],
    block: dict[str, float],
    repeats: int,
    after: Callable[[], None] = lambda: None,
) -> Found:
    """Makespans over that of one after the other, under Hocket and, where there are several without it, sliced by the
    driver; and what the coordinator said of it.

    One alone stands for all of "one after the other", so plain jobs need not fit beside each other. ``after`` is called
    after each block under Hocket.
    """
    found: dict[str, list[float]] = {"hocket": [], "sliced": []}
    for _ in range(repeats):
        alone = len(jobs) * run(plain[:1], **block)
        found["hocket"].append(run(jobs, **block) / alone)
        after()
        if len(plain) > 1:
            found["sliced"].append(run(plain, **block) / alone)
    with harness.reasons({"HOCKET_RUNTIME_DIR": folder}) as said:  # once more, not counted
        run(jobs, **block)
    return found, dict(said.most_common(6))
