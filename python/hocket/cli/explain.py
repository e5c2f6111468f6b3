"""``hocket explain JOB``."""

from __future__ import annotations

import click

from hocket.cli.common import ask


@click.command()
@click.argument("job")
def command(job: str) -> None:
    """Why JOB (its name or id) runs or waits: who has the turn since when, and what memory stands in the way."""
    answer = ask("explain", job=job)
    click.echo(f"{answer['name']} {answer['why']}.")
