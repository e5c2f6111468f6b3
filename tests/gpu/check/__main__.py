"""Runs the parts one after another until all are done or the time is up, and writes the page after each.

A part that fails does not stop the others, except where nothing can go on without it. Exit status 0: every part was
done, every test passed.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import datetime
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time
from typing import Any

from tests.gpu.check import build, histories, machine, page
from tests.gpu.check.parts import RECORD, RESULTS, Part, draw_arrivals, parts

LOG = build.WORK / "log.txt"
RESERVE = 8  # seconds for the page


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="scripts/gpu-check")
    parser.add_argument("--emulate", action="store_true")
    parser.add_argument("--out", type=pathlib.Path, default=build.WORK / "out")
    parser.add_argument("--minutes", type=float)
    parser.add_argument("--only", nargs="+", default=[], metavar="PART")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--tests", default="", metavar="EXPRESSION", help="of the tests these only (pytest's -k)")
    parser.add_argument("--list", action="store_true", help="name the parts and end")
    parser.add_argument("--unpack", action="store_true", help="unpack the bundle and end")
    return parser.parse_args()


class Stopped(Exception):
    """Somebody wants the whole run to end."""


def _stop(*_: object) -> None:
    raise Stopped


def adopt_orphans() -> None:
    """From now on what this run started, however deep, becomes its child when its parent dies (prctl(2))."""
    subreaper = 36
    ctypes.CDLL(None).prctl(subreaper, 1, 0, 0, 0)


def children() -> list[int]:
    """The processes whose parent is this one."""
    found = []
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            if int(stat.read_text().rpartition(")")[2].split()[1]) == os.getpid():
                found.append(int(stat.parent.name))
    return found


def end_children() -> None:
    """Ends every process that a part has left behind: programs on the device, coordinators."""
    while left := children():
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for pid in left:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, 0)


def run(part: Part, seconds: float) -> tuple[str, float]:
    """Runs a part; its outcome and the seconds it took. Whatever it started is gone afterwards."""
    begin = time.monotonic()
    with open(LOG, "ab") as log:
        log.write(f"\n===== {part.name}: {' '.join(part.command)}\n".encode())
        log.flush()
        process = subprocess.Popen(
            part.command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, cwd=build.ROOT,
            env=build.environment(), start_new_session=True,
        )  # fmt: skip
        try:
            outcome = "done" if process.wait(seconds) == 0 else "failed"
        except subprocess.TimeoutExpired:
            outcome = "stopped"
        finally:
            process.kill()
            process.wait()
            end_children()
    return outcome, time.monotonic() - begin


def tail_from(start: int) -> str:
    """The last lines of what was printed since ``start`` (a size of the log)."""
    with open(LOG, "rb") as log:
        log.seek(start)
        return "\n".join(log.read().decode(errors="replace").splitlines()[-15:])


def check(chosen: list[Part], deadline: float, done: list[dict[str, Any]], write: Any) -> None:
    """Runs the parts in order and adds a line to ``done`` for each."""
    impossible = ""
    for part in chosen:
        left = deadline - RESERVE - time.monotonic()
        line = {"name": part.name, "text": part.text, "outcome": "not reached", "seconds": 0.0, "tail": ""}
        done.append(line)
        if impossible or left < part.least:
            print(f"== {part.name}: not reached ({impossible or f'{max(0, left):.0f} s left'})")
            continue
        print(f"== {part.name}: {part.text}")
        start = LOG.stat().st_size
        line["outcome"] = "stopped"  # if this run is stopped in it
        line["outcome"], line["seconds"] = run(part, min(left, part.most))
        if line["outcome"] != "done":
            line["tail"] = tail_from(start)
            print(line["tail"])
            impossible = f"{part.name} is needed for it" if part.needed else ""
        print(f"   {line['outcome']}, {line['seconds']:.0f} s", flush=True)
        write()


def main() -> int:
    chosen = options()
    every = parts(chosen.emulate, chosen.quick, chosen.tests)
    if chosen.list:
        print("\n".join(f"{part.name:16} {part.text}, at most {part.most} s" for part in every))
        return 0
    unknown = set(chosen.only) - {part.name for part in every}
    if unknown:
        print(f"no part is called {unknown.pop()!r}; --list names them", file=sys.stderr)
        return 2
    try:
        build.unpack()
    except FileNotFoundError as error:
        print(f"gpu-check: {error}", file=sys.stderr)
        return 1
    if chosen.unpack:
        return 0
    begin = time.monotonic()
    deadline = begin + 60 * (chosen.minutes or (60 if chosen.emulate else 9))
    for old in (LOG, RECORD, machine.FILE, histories.FILE):
        old.unlink(missing_ok=True)
    shutil.rmtree(RESULTS, ignore_errors=True)
    chosen.out.mkdir(parents=True, exist_ok=True)
    page.clear(chosen.out)
    LOG.touch()
    draw_arrivals()
    about = {
        "command": " ".join(["scripts/gpu-check", *sys.argv[1:]]),
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "built": "without a network, the bundle's libraries hidden where the system has them"
        if os.environ.get("HOCKET_CHECK_ISOLATED") == "yes"
        else "from the bundle",
        "HOCKET_HOST_BUDGET": os.environ.get("HOCKET_HOST_BUDGET", ""),
    }
    done: list[dict[str, Any]] = []

    def write() -> None:
        page.write(chosen.out, LOG, done, {**about, "took": f"{time.monotonic() - begin:.0f} s"})

    signal.signal(signal.SIGTERM, _stop)
    adopt_orphans()
    try:
        check(
            [part for part in every if not chosen.only or part.name in (*chosen.only, "machine") or part.needed],
            deadline,
            done,
            write,
        )
    except (Stopped, KeyboardInterrupt):
        print("stopped; what was reached is on the page")
    write()
    print(f"\n{(chosen.out / page.PAGE).read_text()}\n{chosen.out / page.PAGE}")
    failed = any(line.get("outcome") == "failed" for line in page.gather(done, about)["tests"])
    return 1 if failed or any(line["outcome"] != "done" for line in done) else 0


if __name__ == "__main__":
    sys.exit(main())
