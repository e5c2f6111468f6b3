"""Runs parts one after another, each in its time, and ends whatever they leave behind."""

from __future__ import annotations

import contextlib
import ctypes
import os
import pathlib
import signal
import subprocess
import time
from collections.abc import Callable
from typing import Any

from tests.gpu.check import build
from tests.gpu.check.parts import Part

LOG = build.WORK / "log.txt"
RESERVE = 8  # seconds for the page
MOST_TAIL = 4000  # characters
Lines = dict[str, dict[str, Any]]  # by a part's name: what became of it


class Stopped(Exception):
    """Somebody wants the whole run to end."""


def stop(*_: object) -> None:
    """The handler of a signal that says so."""
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
        return "\n".join(log.read().decode(errors="replace").splitlines()[-15:])[-MOST_TAIL:]


def check(parts: list[Part], deadline: float, lines: Lines, write: Callable[[], None]) -> None:
    """Runs the parts in order; a line of each goes into ``lines``, and ``write`` is called after each."""
    impossible = ""
    for part in parts:
        left = deadline - RESERVE - time.monotonic()
        line = {"name": part.name, "text": part.text, "outcome": "not reached", "seconds": 0.0, "tail": ""}
        lines[part.name] = line
        if impossible or left < part.least:
            print(f"== {part.name}: not reached ({impossible or f'{max(0, left):.0f} s left'})")
            continue
        print(f"== {part.name}: {part.text}")
        start = LOG.stat().st_size
        line["outcome"] = "stopped"  # if this run is stopped in it
        for file in part.appends:
            file.unlink(missing_ok=True)
        line["outcome"], line["seconds"] = run(part, min(left, part.most))
        if line["outcome"] != "done":
            line["tail"] = tail_from(start)
            print(line["tail"])
            impossible = f"{part.name} is needed for it" if part.needed else ""
        print(f"   {line['outcome']}, {line['seconds']:.0f} s", flush=True)
        write()
