"""``hocket pause JOB``."""

from __future__ import annotations

import click

from hocket.cli.common import ask


@click.command()
@click.argument("job")
def command(job: str) -> None:
    """Give JOB (its name or id) no turns until it is resumed. A turn it has ends with its step."""
    ask("pause", job=job)
    click.echo(f"{job} is paused. Let it go on with: hocket resume {job}")
