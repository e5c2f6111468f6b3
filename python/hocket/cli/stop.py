"""``hocket stop``."""

from __future__ import annotations

import click

from hocket import _coordinator
from hocket.cli import common


@click.command()
@click.option("--force", is_flag=True, help="Even while jobs run: they go on, and the first of them starts it again.")
def command(force: bool) -> None:
    """End the coordinator when no job needs it."""
    with common.sentences():
        _coordinator.end(force=force)
    click.echo("the coordinator has ended.")
