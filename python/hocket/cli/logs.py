"""``hocket logs``."""

from __future__ import annotations

import click

from hocket.cli.common import ask


@click.command()
@click.option("-n", "--lines", type=click.IntRange(min=1), default=50, show_default=True, help="How many, the last ones.")
def command(lines: int) -> None:
    """What the coordinator has done, as sentences: turns, hand-overs, spills, jobs that came and left."""
    for line in ask("logs", lines=lines)["lines"]:
        click.echo(line)
