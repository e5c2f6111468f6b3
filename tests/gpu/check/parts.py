"""What the check consists of, in order of worth: what comes late may not be reached."""

from __future__ import annotations

import dataclasses
import os
import sys

from tests.gpu.check.build import WORK

RECORD = WORK / "tests.jsonl"
RESULTS = WORK / "results"


@dataclasses.dataclass(frozen=True)
class Part:
    """A command with a limit.

    Attributes:
        least: seconds; with fewer left it is not begun.
        most: seconds; then it is stopped.
        needed: without it nothing after it makes sense.
    """

    name: str
    text: str
    command: tuple[str, ...]
    least: int
    most: int
    needed: bool = False


def parts(emulate: bool, quick: bool) -> list[Part]:
    """All of them, with those that need traces only where HOCKET_WORKLOADS names their folder. ``quick``: fewer
    repetitions."""
    python = (sys.executable, "-u", "-m")
    where = ("--emulate",) if emulate else ()
    patience = 6 if emulate else 1  # two cores compute what a GPU would
    traces = [os.environ["HOCKET_WORKLOADS"]] if os.environ.get("HOCKET_WORKLOADS") else []
    building = 1800 if emulate else 240

    def bench(name: str, text: str, most: int, *inputs: str) -> Part:
        more = (*inputs, *(("--quick",) if quick else ()))
        command = (*python, "tests.bench", name, "--results", str(RESULTS), *where, *more)
        return Part(name, text, command, 10, most * patience)

    pytest = (*python, "pytest", "-q", "-p", "no:cacheprovider", "tests/gpu", "--record", str(RECORD), *where)
    return [
        Part("build", "builds from the bundle", (*python, "tests.gpu.check.build", *where), 30, building, True),
        Part("machine", "what this machine is", (*python, "tests.gpu.check.machine", *where), 5, 60),
        Part("tests", "tests/gpu", pytest, 30, 270 * patience),
        bench("step_time", "step time alone", 60),
        bench("spill_rate", "spill and restore rate", 75),
        bench("makespan", "two jobs of 50 % duty", 60),
        Part("histories", "allocation histories", (*python, "tests.gpu.check.histories", *where), 20, 60 * patience),
        bench("hand_over", "hand-over without bytes to move", 20),
        bench("share", "share achieved against asked", 60),
        bench("production", "production job beside an opportunistic one", 90),
        *(bench("inference", "requests beside a training", 400, "--workloads", folder) for folder in traces),
        bench("prediction", "what the simulator says of jobs together", 120),
        bench("memory_of_jobs", "memory of two to eight jobs", 120),
        bench("losses", "losses identical to plain torch's", 90),
    ]  # fmt: skip
