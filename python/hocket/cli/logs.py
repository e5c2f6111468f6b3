"""``hocket logs``."""

from __future__ import annotations

import collections
from pathlib import Path

import click

from hocket.cli.common import control


@click.command()
@click.option(
    "-n", "--lines", type=click.IntRange(min=1), default=50, show_default=True, help="How many, the last ones."
)
def command(lines: int) -> None:
    """What the coordinator has done, as sentences: jobs that came and left, gangs, what it refused, holders that hang.

    Read from its log file, so also after it has ended. Turns are in it with hocketd --log-level debug; without, see
    hocket trace.
    """
    path = Path(control().runtime_dir()) / "hocketd.log"
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            said = collections.deque((line.rstrip("\n") for line in file), maxlen=lines)
    except OSError as error:
        raise click.ClickException(
            f"there is no log at {path}: {error.strerror}. No coordinator has run there yet."
        ) from None
    for line in said:
        click.echo(line)
