"""``hocket explain JOB``."""

from __future__ import annotations

import json

import click

from hocket.cli.common import ask


@click.command()
@click.argument("job")
@click.option("--json", "as_json", is_flag=True, help="As data.")
def command(job: str, as_json: bool) -> None:
    """Why JOB (its name or id) runs or waits: who has the turn since when, and what memory stands in the way."""
    answer = ask("explain", job=job)
    click.echo(json.dumps(answer, indent=1) if as_json else f"{answer['name']} {answer['why']}.")
