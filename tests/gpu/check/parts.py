"""What the check consists of, in order of worth, and how long each part may take.

On a GPU the limits up to ``FIRST_CALL`` fit into the time of one call: none of these parts can take another's. The ones
after that, but for the last three, fit into a second call (--go-on). Those three take long, and get what is left.
Benchmarks are brief, so that each of them is done in its time.
"""

from __future__ import annotations

import dataclasses
import importlib.util
import os
import pathlib
import random
import sys

from tests.gpu.check.build import WORK

MINUTES = 9
BUILDING = 30  # seconds that a build takes on 16 cores
FIRST_CALL = "makespan"
LONG = ("prediction", "memory_of_jobs", "inference")
RECORDS = (WORK / "tests.jsonl", WORK / "tests-alone.jsonl")
RESULTS = WORK / "results"
DRAWN = WORK / "drawn"  # in place of traces


@dataclasses.dataclass(frozen=True)
class Part:
    """A command with a limit.

    Attributes:
        least: seconds; with fewer left it is not begun.
        most: seconds; then it is stopped.
        needed: without it nothing after it makes sense.
        appends: files to which it adds what it finds; they begin empty.
    """

    name: str
    text: str
    command: tuple[str, ...]
    least: int
    most: int
    needed: bool = False
    appends: tuple[pathlib.Path, ...] = ()


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
    patience = 10 if emulate else 1  # two cores compute what a GPU would
    traces = os.environ.get("HOCKET_WORKLOADS") or str(DRAWN)
    building = 1800 if emulate else 240

    def bench(name: str, text: str, most: int, *inputs: str) -> Part:
        more = (*inputs, "--quick" if quick else "--brief")
        command = (*python, "tests.bench", name, "--results", str(RESULTS), *where, *more)
        return Part(name, text, command, most // 2, most * patience)

    def tests(name: str, text: str, which: str, most: int, record: pathlib.Path, *more: str) -> Part:
        command = (*python, "pytest", "-q", "-p", "no:cacheprovider", "tests/gpu", "--record", str(record), *where)
        command += (*(("-k", only) if only else ()), "-m", which, *more)
        return Part(name, text, command, 30, most * patience, appends=(record,))

    histories = (*python, "tests.gpu.check.histories", *(("--quick",) if quick else ()))
    beside = min(8, len(os.sched_getaffinity(0)) // 2)
    several = ("-n", str(beside)) if beside > 1 and importlib.util.find_spec("xdist") else ()
    return [
        Part("build", "builds from the bundle", (*python, "tests.gpu.check.build", *where), 30, building, True),
        Part("machine", "what this machine is", (*python, "tests.gpu.check.machine", *where), 5, 20 * patience),
        tests("tests", "tests/gpu", "not alone", 110, RECORDS[0], *several),
        tests("tests_alone", "tests/gpu, those that want the device to themselves", "alone", 156, RECORDS[1]),
        bench("step_time", "step time alone", 32),
        bench("device_idle", "the device's idleness at a hand-over", 26),
        bench("spill_rate", "spill and restore rate", 60),
        bench("evicted", "a job that had been moved to the host", 44),
        bench("makespan", "two jobs of 50 % duty", 54),
        Part("histories", "allocation histories", (*histories, *where), 20, 45 * patience),
        bench("exchange", "hand-over of jobs that do not fit together", 60),
        bench("production", "production job beside an opportunistic one", 56),
        bench("allocation", "malloc, free and reserved memory", 60),
        bench("hand_over", "hand-over without bytes to move", 34),
        bench("share", "share achieved against asked", 80),
        bench("losses", "losses identical to plain torch's", 50),
        bench("link", "a step beside others' bytes that move", 56),
        bench("prediction", "what the simulator says of jobs together", 80),
        bench("memory_of_jobs", "memory of jobs together", 120),
        bench("inference", "requests beside a training", 120, "--workloads", traces),
    ]
