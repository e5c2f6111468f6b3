"""``hocket resume JOB``."""

from __future__ import annotations

import json

import click

from hocket.cli.common import ask


@click.command()
@click.argument("job")
@click.option("--json", "as_json", is_flag=True, help="As data: the job as `hocket status --json` shows it.")
def command(job: str, as_json: bool) -> None:
    """Let a paused JOB (its name or id) have turns again."""
    answer = ask("resume", job=job)
    click.echo(json.dumps(answer, indent=1) if as_json else f"{job} has turns again.")
