"""``hocket resume JOB``."""

from __future__ import annotations

import click

from hocket.cli.common import ask


@click.command()
@click.argument("job")
def command(job: str) -> None:
    """Let a paused JOB (its name or id) have turns again."""
    ask("resume", job=job)
    click.echo(f"{job} has turns again.")
