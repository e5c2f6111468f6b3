"""``hocket set JOB``."""

from __future__ import annotations

import json

import click

from hocket.cli.common import ask
from hocket.cli.options import PRIORITY, Weight


@click.command()
@click.argument("job")
@click.option("--weight", type=Weight(), help="Share of the device, > 0.")
@click.option("--priority", type=PRIORITY)
@click.option("--total-steps", type=click.IntRange(min=0), help="How many steps it will run in all; 0: not known.")
@click.option("--json", "as_json", is_flag=True, help="As data: the job as `hocket status --json` shows it.")
def command(job: str, weight: float | None, priority: str | None, total_steps: int | None, as_json: bool) -> None:
    """Change JOB (its name or id) while it runs."""
    given = {"weight": weight, "priority": priority, "total_steps": total_steps}
    changes = {name: value for name, value in given.items() if value is not None}
    if not changes:
        raise click.UsageError("nothing to change: give --weight, --priority or --total-steps")
    answer = ask("set", job=job, **changes)
    if as_json:
        click.echo(json.dumps(answer, indent=1))
    else:
        click.echo(f"{job}: " + ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in changes.items()))
