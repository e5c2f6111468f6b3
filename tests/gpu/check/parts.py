"""What the check consists of, in order of worth: what comes late may not be reached."""

from __future__ import annotations

import dataclasses
import importlib.util
import os
import random
import sys

from tests.gpu.check.build import WORK

RECORD = WORK / "tests.jsonl"
RESULTS = WORK / "results"
DRAWN = WORK / "drawn"  # in place of traces


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


def draw_arrivals() -> None:
    """Writes what stands in for a trace of arrivals: independent ones, the same in every run. The record says so."""
    draw = random.Random(1)
    file = DRAWN / "orion" / "inter_arrival_s.csv"
    file.parent.mkdir(parents=True, exist_ok=True)
    gaps = "".join(f"{draw.expovariate(1):.6f}\n" for _ in range(5000))
    file.write_text(f"seconds, drawn\n{gaps}")


def parts(emulate: bool, quick: bool, only: str = "") -> list[Part]:
    """All of them. Requests arrive as in the trace of the folder that HOCKET_WORKLOADS names; where it names none, as
    drawn. ``quick``: fewer repetitions. ``only``: of the tests (pytest's -k)."""
    python = (sys.executable, "-u", "-m")
    where = ("--emulate",) if emulate else ()
    patience = 6 if emulate else 1  # two cores compute what a GPU would
    traces = os.environ.get("HOCKET_WORKLOADS") or str(DRAWN)
    building = 1800 if emulate else 240

    def bench(name: str, text: str, most: int, *inputs: str) -> Part:
        more = (*inputs, *(("--quick",) if quick else ()))
        command = (*python, "tests.bench", name, "--results", str(RESULTS), *where, *more)
        return Part(name, text, command, 10, most * patience)

    pytest = (*python, "pytest", "-q", "-p", "no:cacheprovider", "tests/gpu", "--record", str(RECORD), *where)
    pytest += ("-k", only) if only else ()
    beside = min(8, len(os.sched_getaffinity(0)) // 2)
    several = ("-n", str(beside)) if beside > 1 and importlib.util.find_spec("xdist") else ()
    return [
        Part("build", "builds from the bundle", (*python, "tests.gpu.check.build", *where), 30, building, True),
        Part("machine", "what this machine is", (*python, "tests.gpu.check.machine", *where), 5, 60),
        Part("tests", "tests/gpu", (*pytest, "-m", "not alone", *several), 30, 180 * patience),
        Part("tests_alone", "tests/gpu, those that want the device to themselves", (*pytest, "-m", "alone"), 30,
             180 * patience),
        bench("step_time", "step time alone", 60),
        bench("evicted", "a job that had been moved to the host", 60),
        bench("device_idle", "the device's idleness at a hand-over", 45),
        bench("spill_rate", "spill and restore rate", 130),
        bench("makespan", "two jobs of 50 % duty", 60),
        bench("exchange", "hand-over of jobs that do not fit together", 75),
        Part("histories", "allocation histories", (*python, "tests.gpu.check.histories", *where), 20, 60 * patience),
        bench("hand_over", "hand-over without bytes to move", 20),
        bench("share", "share achieved against asked", 60),
        bench("production", "production job beside an opportunistic one", 90),
        bench("inference", "requests beside a training", 400, "--workloads", traces),
        bench("prediction", "what the simulator says of jobs together", 120),
        bench("memory_of_jobs", "memory of two to eight jobs", 120),
        bench("losses", "losses identical to plain torch's", 90),
        bench("link", "a step beside others' bytes that move", 90),
    ]  # fmt: skip
