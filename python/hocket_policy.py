"""A policy of your own for ``hocket policy FILE``: it says who gets the GPU next.

    from hocket_policy import Job, Policy

    class ShortStepsFirst(Policy):
        def before(self, a: Job, b: Job) -> bool:
            return (a.step or 0) < (b.step or 0)

``before`` is all that is needed. The other methods say more, or keep an account; their defaults do nothing. The policy
runs in a process of its own, which knows no torch; the coordinator asks it over its standard input and output, so what
it prints goes to standard error. An exception, an answer that takes longer than 1 s or the end of the process hands
the decisions to ``fair``, which ``hocket status`` says; it is started again after a pause, and then told ``asked`` of
those who wait.

    python -m hocket_policy FILE           serves the policy in FILE
    python -m hocket_policy --check FILE   tries it on three jobs; says what is wrong with it, status 1 if anything is
"""

from __future__ import annotations

import dataclasses
import functools
import importlib.util
import inspect
import json
import os
import sys
import traceback
from typing import Any, TextIO


@dataclasses.dataclass(frozen=True)
class Job:
    """What is known of a job, or of all ranks of one program. Times are in seconds; None: not known, or not."""

    id: int
    user: int  # uid
    weight: float
    user_weight: float  # of all its user's jobs
    priority: str  # "high", "normal" or "low"
    waits: float | None  # for so long
    away: float | None  # since the end of its last turn
    served: float  # device time it has had
    steps: int  # completed
    total_steps: int  # 0: not known
    step: float | None  # usual time of a step
    gap: float | None  # usual time from the end of its turn until it asks again


class Policy:
    """Derive from this. The coordinator makes one for each GPU and asks it from one thread."""

    def before(self, a: Job, b: Job) -> bool:
        """Whether ``a`` gets its turn before ``b``. Where neither is before the other, the earlier asker is."""
        raise NotImplementedError

    def reason(self, first: Job) -> str:
        """Why ``first`` is next, for ``hocket explain``."""
        return ""

    def keep(self, holder: Job, held: float, waiting: list[Job]) -> float:
        """How many seconds more ``holder`` goes on, which has had the turn for ``held`` while others wait."""
        return 0.0

    def asked(self, job: Job) -> None:
        """``job`` begins to wait."""

    def granted(self, job: Job) -> None:
        """``job`` gets the turn."""

    def charge(self, job: Job, seconds: float, contended: bool) -> None:
        """``job`` has had the turn for ``seconds`` more; ``contended``: somebody waited meanwhile."""

    def forget(self, job: int) -> None:
        """The job with this id has left."""


def load(file: str) -> Policy:
    """The policy in ``file``: an object of the one class there that derives from Policy. TypeError: not one."""
    spec = importlib.util.spec_from_file_location("own_policy", file)
    if spec is None or spec.loader is None:
        raise TypeError(f"{file} is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    found = [
        value
        for value in vars(module).values()
        if inspect.isclass(value) and issubclass(value, Policy) and value.__module__ == spec.name
    ]
    if len(found) != 1:
        names = ", ".join(each.__name__ for each in found) or "none"
        raise TypeError(f"{file} must have one class that derives from hocket_policy.Policy; it has {names}")
    return found[0]()


def order(policy: Policy, jobs: list[Job]) -> list[Job]:
    """``jobs``, the earliest asker first, in the order of their turns."""

    def compare(a: Job, b: Job) -> int:
        return -1 if policy.before(a, b) else int(bool(policy.before(b, a)))

    return sorted(jobs, key=functools.cmp_to_key(compare))


def answer(policy: Policy, question: dict[str, Any]) -> dict[str, Any]:
    """What is answered to a line with "ask"."""
    jobs = [Job(**job) for job in question["jobs"]]
    if question["ask"] == "order":
        ordered = order(policy, jobs)
        return {"order": [job.id for job in ordered], "reason": str(policy.reason(ordered[0]))}
    return {"seconds": float(policy.keep(Job(**question["holder"]), question["held"], jobs))}


def tell(policy: Policy, line: dict[str, Any]) -> None:
    """Passes a line with "tell" on."""
    what = line["tell"]
    if what == "forget":
        policy.forget(line["id"])
    elif what == "charge":
        policy.charge(Job(**line["job"]), line["seconds"], line["contended"])
    else:
        {"asked": policy.asked, "granted": policy.granted}[what](Job(**line["job"]))


def _sentence(error: BaseException) -> str:
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith("<") and frame.filename != __file__
    ]
    place = f" ({os.path.basename(frames[-1].filename)}, line {frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}: {error}{place}"


def serve(file: str, lines: TextIO, out: TextIO) -> None:
    """Answers line for line until the coordinator ends."""

    def say(what: dict[str, Any]) -> None:
        print(json.dumps(what), file=out, flush=True)

    try:
        policy = load(file)
        say({"hocket_policy": 1, "keeps": type(policy).keep is not Policy.keep})
        for text in lines:
            line = json.loads(text)
            if "ask" in line:
                say(answer(policy, line))
            else:
                tell(policy, line)
    except BrokenPipeError:
        pass
    except Exception as error:  # whatever it is, the coordinator is told
        traceback.print_exc()
        say({"error": _sentence(error)})


def check(file: str) -> None:
    """Tries the policy in ``file`` on three jobs. Raises what it raises."""
    policy = load(file)
    jobs = [
        Job(i, 1000, 1.0, 1.0, "normal", waits, None, 0.5 * i, i, 0, step, None)
        for i, (waits, step) in enumerate(((0.3, None), (0.2, 0.1), (0.1, 0.02)), start=1)
    ]
    for job in jobs:
        policy.asked(job)
    ordered = order(policy, jobs)
    policy.granted(ordered[0])
    policy.charge(ordered[0], 0.1, True)
    if not float(policy.keep(ordered[0], 0.1, ordered[1:])) >= 0:
        raise ValueError("keep() must return seconds, 0 or more")
    str(policy.reason(ordered[0]))
    policy.forget(ordered[0].id)


def main(arguments: list[str]) -> int:
    if len(arguments) == 2 and arguments[0] == "--check":
        try:
            check(arguments[1])
        except Exception as error:
            traceback.print_exc()
            print(_sentence(error))
            return 1
        return 0
    if len(arguments) != 1:
        print(__doc__, file=sys.stderr)
        return 2
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what the policy prints
    serve(arguments[0], sys.stdin, out)
    return 0


if __name__ == "__main__":
    # By the name under which policies import it: their Policy and this one are the same.
    import hocket_policy

    sys.exit(hocket_policy.main(sys.argv[1:]))
