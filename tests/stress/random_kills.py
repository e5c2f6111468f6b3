"""Kills jobs and the daemon at random, again and again, and looks at what is left.

    hocket emulate --name NAME --memory SIZE -- python -m tests.stress.random_kills --kills 100 --seed 1

Three trainings run side by side. Each time one of them reports a step that the seed has chosen, somebody is killed
with SIGKILL: a job (a fresh one takes its place), or the daemon. Afterwards every training must have come to its end
with the losses it has alone, and nobody may be left holding or waiting for anything. On a SIZE too small for the three
(20MiB) memory is spilled and restored all the while; how many kills came while bytes lay on the host is counted.

Processes come from multiprocessing's fork server with torch already imported, so a start costs little. It ends with
status 0 and one line of JSON, or names what hung, was lost or is wrong.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import multiprocessing
import os
import pathlib
import random
import signal
import sys
from multiprocessing import connection

from tests.bench import harness
from tests.stress import jobs

PATIENCE = 120.0  # seconds without any sign of life after which something hangs; a bound, not a pace


def _worker(kind: str, steps: int, pipe: connection.Connection) -> None:
    losses = jobs.train(kind, steps, lambda step, loss: pipe.send((step, loss)))
    pipe.send(losses)
    pipe.close()


class Slot:
    """One training, started again after every kill until it has come to its end once."""

    def __init__(self, context: multiprocessing.context.BaseContext, kind: str, steps: int) -> None:
        self.kind, self.steps, self.starts = kind, steps, 0
        self._context = context
        self.start()

    def start(self) -> None:
        self.starts += 1
        self.losses: list[str] | None = None
        self.pipe, theirs = self._context.Pipe(duplex=False)
        self.process = self._context.Process(target=_worker, args=(self.kind, self.steps, theirs))
        self.process.start()
        theirs.close()

    def hear(self) -> int | None:
        """Takes one message; the step it reports, or None at the end."""
        message = self.pipe.recv()  # EOFError: it died
        if isinstance(message, list):
            self.losses = message
            return None
        return message[0]

    def kill(self) -> bool:
        """False if it had come to its end already, unheard."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.process.pid, signal.SIGKILL)
        self.process.join()
        if self.process.exitcode not in (0, -signal.SIGKILL, 255):  # 255: the fork server lost its status
            raise SystemExit(f"lost: {self.kind} ended with status {self.process.exitcode} by itself")
        return self.process.exitcode == -signal.SIGKILL


def _control(command: str, **arguments: object) -> dict:
    from hocket import _control

    return json.loads(_control.control(_control.socket_path(), command, json.dumps(arguments), 10000))


def _on_the_host() -> bool:
    """Whether bytes of a job are spilled now; False also where no daemon answers."""
    try:
        return any(job["spilled"] > 0 for job in _control("status")["jobs"])
    except (RuntimeError, OSError):
        return False


def _kill_daemon() -> bool:
    """Whether there was one to kill: after its death nobody may have noticed yet."""
    try:
        os.kill(_control("status")["daemon"]["pid"], signal.SIGKILL)
    except (RuntimeError, OSError):
        return False
    return True


def alone(context: multiprocessing.context.BaseContext, steps: int) -> dict[str, list[str]]:
    """The losses of each kind with nobody beside it."""
    losses = {}
    for kind in jobs.KINDS:
        slot = Slot(context, kind, steps)
        while slot.hear() is not None:
            pass
        slot.process.join()
        assert slot.losses is not None
        losses[kind] = slot.losses
    return losses


def together(context: multiprocessing.context.BaseContext, steps: int, kills: int, seed: int) -> dict:
    """Runs them side by side under fire; returns {slots, killed_jobs, killed_daemons, kills_while_spilled}."""
    draw = random.Random(seed)
    slots = [Slot(context, kind, steps) for kind in jobs.KINDS]
    killed_jobs = killed_daemons = while_spilled = 0
    until_next = draw.randrange(1, 12)
    while any(slot.losses is None for slot in slots):
        running = {slot.pipe: slot for slot in slots if slot.losses is None}
        ready = connection.wait(list(running), timeout=PATIENCE)
        if not ready:
            raise SystemExit(f"hung: no step for {PATIENCE:g} s. {json.dumps(_control('status'))}")
        for pipe in ready:
            slot = running[pipe]
            try:
                slot.hear()
            except EOFError:
                slot.process.join()
                raise SystemExit(f"lost: {slot.kind} ended with status {slot.process.exitcode} by itself") from None
            until_next -= 1
            if until_next > 0 or killed_jobs + killed_daemons >= kills:
                continue
            until_next = draw.randrange(1, 12)
            while_spilled += _on_the_host()
            if draw.random() < 0.25:
                killed_daemons += _kill_daemon()
                continue
            victim = draw.choice(slots)
            if victim.losses is None:
                killed_jobs += victim.kill()
            victim.start()  # one that had come to its end runs once more, to keep the others company
            break  # `running` is out of date
    for slot in slots:
        slot.process.join()
    return {
        "slots": slots,
        "killed_jobs": killed_jobs,
        "killed_daemons": killed_daemons,
        "kills_while_spilled": while_spilled,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=pathlib.Path, help="also write the outcome there, with the commit")
    options = parser.parse_args()
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["torch", "tests.stress.jobs"])
    expected = alone(context, options.steps)
    result = together(context, options.steps, options.kills, options.seed)
    wrong = [slot.kind for slot in result.pop("slots") if slot.losses != expected[slot.kind]]
    left = [job for job in _control("status").get("jobs", []) if job.get("state") in ("holds", "waits")]
    outcome = {**result, "seed": options.seed, "wrong": wrong, "left": left}
    print(json.dumps(outcome), flush=True)
    if options.json:
        memory = os.environ.get("HOCKET_EMULATOR_MEMORY", "an unknown number of")
        check = (
            f"{options.kills} kills at random of jobs and of the daemon, three trainings on {memory} bytes: nothing "
            "hung, lost or wrong, nothing left behind",
            not (wrong or left),
            f"{outcome['killed_jobs']} jobs and {outcome['killed_daemons']} daemons killed, "
            f"{outcome['kills_while_spilled']} of them while bytes were spilled",
        )
        code = ["allocator", "csrc", *harness.COORDINATOR, "python/hocket"]
        record = harness.checks_record(
            "random_kills", "python -m tests.stress.random_kills", [check], code, memory=memory, **outcome
        )
        options.json.write_text(json.dumps(record, indent=1) + "\n")
    if wrong or left:
        sys.exit(f"wrong losses: {wrong or 'none'}; left behind: {left or 'nothing'}")


if __name__ == "__main__":
    main()
