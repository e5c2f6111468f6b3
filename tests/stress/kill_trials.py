"""Kills (SIGKILL) at random points of jobs and of the daemon, trial by trial, and looks at what is left.

    python -m tests.stress.kill_trials --build build/dev --trials 900 --seed 1 --json docs/results/kill_trials.json

Jobs in C++ share an emulated device that is too small for them, so that turns change hands at every step and bytes
move at most of them. Each knows every byte that it has and looks at all of them in each step. A trial: a point is
drawn, somebody who is there is killed, and then everybody who is left must make steps, with right bytes. Points:

    in turn     it has the turn, in a step           joining    its process has just been started
    waiting     it waits for the turn                leaving    it is told to end, and killed on its way out
    moving      bytes of it lie on the host, or move: it spills or restores
    workers     while a child that it has forked lives on (as loader workers do), which is killed later
    daemon      hocketd itself; the first job to notice starts another

Which of them it was is what `hocket status` said just before; a kill is not atomic with it, so between two of them a
job may have gone on. After all trials everybody left comes to his end with status 0, nobody holds or waits, and
neither memory of the device nor files in /dev/shm are left behind. Ends with status 1 and one sentence otherwise.
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import pathlib
import random
import signal
import sys

from tests.stress.cpp_jobs import Job, Node, Wrong

JOBS = 3
POINTS = ("in turn", "waiting", "moving", "joining", "leaving", "workers", "daemon")
LONG = 1 << 20  # steps: it is killed first


def _states(node: Node) -> dict[int, dict]:
    """By pid, as the daemon says now; nothing where none answers."""
    try:
        return {job["pid"]: job for job in node.ask("status")["jobs"]}
    except (RuntimeError, OSError):
        return {}


def _is_at(job: dict, point: str) -> bool:
    if point == "moving":
        return job["spilled"] > 0
    return job["state"] == {"in turn": "holds", "waiting": "waits"}[point]


def _find(node: Node, point: str) -> Job | None:
    """One of whom `status` says so; looks again after each step of somebody's, for a while."""
    for _ in range(200):
        states = _states(node)
        for job in node.jobs:
            if job.pid in states and _is_at(states[job.pid], point):
                return job
        node.progress(1)
    return None


def _worker_of(pid: int) -> int | None:
    children = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return int(children[0]) if children else None


def trial(node: Node, point: str, draw: random.Random, number: int) -> str:
    """One of them; what was killed, in a word ("" where nobody came to that point)."""
    name = f"job-{number}"
    worker = None
    if point == "daemon":
        if not node.kill_daemon():
            return ""
    elif point == "joining":
        fresh = node.start(name, LONG)
        # From before its first system call until it has joined.
        for _ in range(draw.randrange(0, 4)):
            node.progress(1)
        fresh.kill()
    elif point == "leaving":
        short = node.start(name, 1)
        while short.steps == 0 and short in node.jobs:
            node.progress(1)
        if short not in node.jobs:
            return ""
        short.kill()
    else:
        if point == "workers":
            victim = node.start(name, LONG, workers=1)
            while victim.steps < 1 + draw.randrange(8):
                node.progress(1)
            while (worker := _worker_of(victim.pid)) is None:  # it says the step before it forks
                pass
        else:
            victim = _find(node, point)
            if victim is None:
                return ""
        victim.kill()
        if point != "workers":
            node.start(name, LONG)
    before = {job.name: job.steps for job in node.jobs}
    _everybody_goes_on(node, before)
    if worker is not None:
        os.kill(worker, signal.SIGKILL)
    return point


def _everybody_goes_on(node: Node, before: dict[str, int]) -> None:
    """Each makes a step, while the others make at most so many."""
    budget = 20_000
    while any(job.steps <= before.get(job.name, 0) for job in node.jobs):
        node.progress(1)
        budget -= 1
        if budget == 0:
            late = [job.name for job in node.jobs if job.steps <= before.get(job.name, 0)]
            raise Wrong(f"hung: {', '.join(late)} makes no step: {json.dumps(node.ask('status'))}")


def _nothing_is_left(node: Node) -> None:
    for job in list(node.jobs):
        job.kill()
    last = node.start("last", 40)
    while last in node.jobs:
        node.progress(1)
    status = node.ask("status")
    busy = [job["name"] for job in status["jobs"] if job["state"] in ("holds", "waits")]
    if busy:
        raise Wrong(f"left behind: {', '.join(busy)}")
    held = sum(device["persistent"] for device in status["devices"])
    if held:
        raise Wrong(f"left behind: {held} bytes of nobody's; {json.dumps(status['devices'])}")
    # The last to end removes the emulated device, unless a process or memory of it is left.
    if files := node.left_behind():
        raise Wrong(f"left behind: {', '.join(files)} in /dev/shm")


def run(node: Node, trials: int, seed: int) -> dict[str, object]:
    draw = random.Random(seed)
    for i in range(JOBS):
        node.start(f"first-{i}", LONG)
    node.progress(JOBS * 2)
    killed: collections.Counter[str] = collections.Counter()
    number = 0
    while killed.total() < trials:
        number += 1
        if number > 3 * trials + 50:
            raise Wrong(f"only {killed.total()} of {trials} trials found whom to kill: {dict(killed)}")
        node.progress(draw.randrange(1, 12))
        point = trial(node, draw.choice(POINTS), draw, number)
        if point:
            killed[point] += 1
    moved = node.moved
    _nothing_is_left(node)
    return {"trials": killed.total(), "killed": dict(sorted(killed.items())), "moved": moved}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, required=True, help="CMake's build folder")
    parser.add_argument("--trials", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--memory", default="2560KiB", help="of the emulated device")
    parser.add_argument("--json", type=pathlib.Path, help="also write the outcome there, with the commit")
    options = parser.parse_args()
    with Node(options.build.resolve(), options.memory, "trials") as node:
        try:
            outcome = run(node, options.trials, options.seed)
        except Wrong as wrong:
            sys.exit(str(wrong))
    print(json.dumps(outcome), flush=True)
    if options.json:
        from tests.bench import harness

        text = (
            f"{options.trials} kills at random points of C++ jobs (in turn, waiting, moving bytes, joining, leaving, "
            "with live workers) and of the daemon: nothing hung, lost or wrong, nothing left behind"
        )
        seen = ", ".join(f"{count} {point}" for point, count in outcome["killed"].items())
        code = ["allocator", "csrc", *harness.COORDINATOR]
        record = harness.checks_record(
            "kill_trials",
            "python -m tests.stress.kill_trials",
            [(text, True, seen)],
            code,
            seed=options.seed,
            **outcome,
        )
        options.json.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
