"""``hocket set JOB``."""

from __future__ import annotations

import json
from typing import Any

import click

from hocket.cli.common import ask, size
from hocket.cli.options import (
    GROUP_HELP,
    LIMIT_HELP,
    PRIORITY,
    PRIORITY_HELP,
    WEIGHT_HELP,
    GroupName,
    Size,
    Weight,
    said,
)


@click.command()
@click.argument("job")
@click.option("--weight", type=Weight(), help=WEIGHT_HELP)
@click.option("--priority", type=PRIORITY, help=PRIORITY_HELP)
@click.option("--total-steps", type=click.IntRange(min=0), help="How many steps it will run in all; 0: not known.")
@click.option("--memory-limit", type=Size(or_none=True), help=f"{LIMIT_HELP} none: what the device has.")
@click.option("--group", type=GroupName(or_none=True), help=f"{GROUP_HELP} none: no group.")
@click.option("--json", "as_json", is_flag=True, help="As data: the job as `hocket status --json` shows it.")
def command(
    job: str,
    weight: float | None,
    priority: str | None,
    total_steps: int | None,
    memory_limit: int | str | None,
    group: str | None,
    as_json: bool,
) -> None:
    """Change JOB (its name or id) while it runs."""
    options = {
        "weight": weight,
        "priority": priority,
        "total_steps": total_steps,
        "memory_limit": memory_limit,
        "group": group,
    }
    changes = said(options)
    if not changes:
        raise click.UsageError("nothing to change: give --weight, --priority, --total-steps, --memory-limit or --group")
    answer = ask("set", job=job, **changes)
    if as_json:
        click.echo(json.dumps(answer, indent=1))
        return
    click.echo(f"{job}: " + ", ".join(f"{name.replace('_', ' ')} {_shown(name, options)}" for name in changes))
    held = answer["persistent"] + answer["spilled"]
    limit = changes.get("memory_limit")
    if limit and held > limit:
        click.echo(f"{job} holds {size(held)}, more than its limit: it keeps that, and gets no more")


def _shown(name: str, options: dict[str, Any]) -> Any:
    value = options[name]
    return size(value) if name == "memory_limit" and isinstance(value, int) else value
