"""Runs the parts one after another until all are done or the time is up, and writes the page after each.

A part that fails does not stop the others, except where nothing can go on without it. Exit status 0: every part was
done, every test passed.
"""

from __future__ import annotations

import argparse
import datetime
import os
import pathlib
import shutil
import signal
import sys
import time
from typing import Any

from tests.gpu.check import build, histories, machine, page, progress, runner
from tests.gpu.check.parts import MINUTES, RECORDS, RESULTS, draw_arrivals, parts


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="scripts/gpu-check")
    parser.add_argument("--emulate", action="store_true")
    parser.add_argument("--out", type=pathlib.Path, default=build.WORK / "out")
    parser.add_argument("--minutes", type=float)
    parser.add_argument("--only", nargs="+", default=[], metavar="PART")
    parser.add_argument("--go-on", action="store_true", help="with what the last run of these sources has not ended")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--tests", default="", metavar="EXPRESSION", help="of the tests these only (pytest's -k)")
    parser.add_argument("--list", action="store_true", help="name the parts and end")
    parser.add_argument("--unpack", action="store_true", help="unpack the bundle and end")
    return parser.parse_args()


def forget() -> None:
    """What an earlier run has found is not this one's."""
    for old in (runner.LOG, *RECORDS, machine.FILE, histories.FILE, progress.FILE):
        old.unlink(missing_ok=True)
    for folder in (RESULTS, build.HISTORIES):
        shutil.rmtree(folder, ignore_errors=True)


def main() -> int:
    begin = time.monotonic()
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
    deadline = begin + 60 * (chosen.minutes or (60 if chosen.emulate else MINUTES))
    what = progress.of(chosen.emulate, chosen.quick, chosen.tests)
    earlier, lines = progress.load(what) if chosen.go_on else ({}, {})
    if not lines:
        forget()
    if chosen.go_on:
        print(f"goes on from {earlier['date']}" if lines else "nothing to go on from: no run of these sources is here")
    chosen.out.mkdir(parents=True, exist_ok=True)
    page.clear(chosen.out)
    runner.LOG.touch()
    draw_arrivals()
    about = {
        "command": " ".join(["scripts/gpu-check", *sys.argv[1:]]),
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "built": "without a network, the bundle's libraries hidden where the system has them"
        if os.environ.get("HOCKET_CHECK_ISOLATED") == "yes"
        else "from the bundle",
        "HOCKET_HOST_BUDGET": os.environ.get("HOCKET_HOST_BUDGET", ""),
        "goes on from": ", ".join(earlier[key] for key in ("command", "date", "took")) if lines else "",
    }

    def told() -> tuple[list[dict[str, Any]], dict[str, Any]]:
        in_order = [lines[part.name] for part in every if part.name in lines]
        return in_order, {**about, "took": f"{time.monotonic() - begin:.0f} s"}

    def write() -> None:
        page.write(chosen.out, runner.LOG, *told())
        progress.save(what, told()[1], lines)

    wanted = [part for part in every if not chosen.only or part.name in (*chosen.only, "machine") or part.needed]
    signal.signal(signal.SIGTERM, runner.stop)
    runner.adopt_orphans()
    try:
        runner.check(progress.still_to_do(wanted, lines, bool(chosen.only)), deadline, lines, write)
    except (runner.Stopped, KeyboardInterrupt):
        print("stopped; what was reached is on the page")
    write()
    print(f"\n{(chosen.out / page.PAGE).read_text()}\n{chosen.out / page.PAGE}")
    failed = any(line.get("outcome") == "failed" for line in page.gather(*told())["tests"])
    return 1 if failed or any(line["outcome"] != "done" for line in lines.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
