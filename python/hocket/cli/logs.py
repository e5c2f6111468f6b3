"""``hocket logs``."""

from __future__ import annotations

import os
from pathlib import Path

import click

from hocket.cli.common import control


@click.command()
@click.option(
    "-n", "--lines", type=click.IntRange(min=1), default=50, show_default=True, help="How many, the last ones."
)
def command(lines: int) -> None:
    """What the coordinator has done, as sentences: turns, hand-overs, spills, jobs that came and left.

    Read from its log file, so also after it has ended.
    """
    path = Path(control().runtime_dir()) / "hocketd.log"
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            file.seek(max(0, os.path.getsize(path) - 400 * lines))
            said = file.read().splitlines()
    except OSError as error:
        raise click.ClickException(
            f"there is no log at {path}: {error.strerror}. No coordinator has run there yet."
        ) from None
    for line in said[-lines:]:
        click.echo(line)
