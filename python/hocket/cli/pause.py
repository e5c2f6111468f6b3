"""``hocket pause JOB``."""

from __future__ import annotations

import json

import click

from hocket.cli.common import ask


@click.command()
@click.argument("job")
@click.option("--json", "as_json", is_flag=True, help="As data: the job as `hocket status --json` shows it.")
def command(job: str, as_json: bool) -> None:
    """Give JOB (its name or id) no turns until it is resumed. A turn it has ends with its step."""
    answer = ask("pause", job=job)
    click.echo(json.dumps(answer, indent=1) if as_json else f"{job} is paused. Let it go on with: hocket resume {job}")
