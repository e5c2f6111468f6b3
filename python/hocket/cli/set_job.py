"""``hocket set JOB``."""

from __future__ import annotations

import click

from hocket.cli.common import ask
from hocket.cli.options import PRIORITY, Weight


@click.command()
@click.argument("job")
@click.option("--weight", type=Weight(), help="Share of the device, > 0.")
@click.option("--priority", type=PRIORITY)
def command(job: str, weight: float | None, priority: str | None) -> None:
    """Change JOB (its name or id) while it runs."""
    given = {"weight": weight, "priority": priority}
    changes = {name: value for name, value in given.items() if value is not None}
    if not changes:
        raise click.UsageError("nothing to change: give --weight or --priority")
    ask("set", job=job, **changes)
    click.echo(f"{job}: " + ", ".join(f"{name} {value}" for name, value in changes.items()))
