"""``hocket logs``."""

from __future__ import annotations

import collections
import contextlib
import itertools
import json
import os
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, TextIO

import click

from hocket.cli.common import control

_KNOWN = ("time", "level", "event", "job", "pid", "name", "device", "text")


def entry(line: str) -> dict[str, Any]:
    """A line of the log; one that is not as a coordinator of this version writes it becomes its text."""
    try:
        said = json.loads(line)
    except ValueError:
        said = None
    return said if isinstance(said, dict) and isinstance(said.get("text"), str) else {"text": line}


def sentence(said: dict[str, Any]) -> str:
    """As a person reads it: in local time, the control characters of other processes' names left out."""
    try:
        begin = f"{datetime.fromisoformat(said['time']).astimezone():%Y-%m-%d %H:%M:%S} {said['level']}: "
    except (KeyError, TypeError, ValueError):
        begin = ""
    return begin + "".join(c if c.isprintable() else " " for c in said["text"])


def _entries(path: Path) -> Iterator[dict[str, Any]]:
    """Of what was set aside when the log had grown to its limit (coordinator/server/log.cc), then of the log."""
    with contextlib.ExitStack() as stack:
        # The log first, so that nothing is missing where it is set aside in between: then both are the same file.
        log = stack.enter_context(_open(path))
        before: list[TextIO] = []
        with contextlib.suppress(FileNotFoundError):
            aside = stack.enter_context(_open(path.with_suffix(".1.log")))
            if not os.path.sameopenfile(aside.fileno(), log.fileno()):
                before.append(aside)
        for line in itertools.chain(*before, log):
            yield entry(line.rstrip("\n"))


def _open(path: Path) -> TextIO:
    return open(path, encoding="utf-8", errors="replace")


@click.command()
@click.option(
    "-n", "--lines", type=click.IntRange(min=1), default=50, show_default=True, help="How many, the last ones."
)
@click.option("--job", metavar="JOB", help="Only what is about the job of that name or number.")
@click.option("--json", "as_json", is_flag=True, help="As data, a line each.")
def command(lines: int, job: str | None, as_json: bool) -> None:
    """What the coordinator has done, as sentences: jobs that came and left, gangs, what it refused, holders that hang.

    Read from its log file, so also after it has ended. Turns are in it with hocketd --log-level debug; without, see
    hocket trace.
    """
    path = Path(control().runtime_dir()) / "hocketd.log"
    wanted = (said for said in _entries(path) if job in (None, said.get("name"), str(said.get("job", ""))))
    try:
        last = collections.deque(wanted, maxlen=lines)
    except PermissionError:
        raise click.ClickException(
            f"the log at {path} is of a coordinator that serves several users: only root may read it."
        ) from None
    except OSError as error:
        raise click.ClickException(
            f"there is no log at {path}: {error.strerror}. No coordinator has run there yet."
        ) from None
    for said in last:
        click.echo(json.dumps({key: said[key] for key in _KNOWN if key in said}) if as_json else sentence(said))
