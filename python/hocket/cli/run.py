"""``hocket run -- CMD``: a program takes turns without a line of Hocket in it."""

from __future__ import annotations

import click

from hocket.cli.common import configure, control, size
from hocket.cli.options import (
    COMMAND,
    GROUP_HELP,
    LIMIT_HELP,
    PRIORITY,
    PRIORITY_HELP,
    PROGRAM,
    WEIGHT_HELP,
    GroupName,
    Size,
    Weight,
)
from hocket.cli.program import become, environment, without_hocket


@click.command(context_settings=PROGRAM)
@click.option("--name", default="", help="Name of the job. Default: from the program.")
@click.option("--weight", type=Weight(), help=f"{WEIGHT_HELP} Default: 1.")
@click.option("--priority", type=PRIORITY, help=f"{PRIORITY_HELP} Default: normal.")
@click.option("--group", type=GroupName(), help=GROUP_HELP)
@click.option("--memory-limit", type=Size(), help=LIMIT_HELP)
@click.option("--total-steps", type=click.IntRange(min=1), help="How many steps it will run, if known.")
@click.option("--serves", is_flag=True, help="Each step answers a request: trainings on the same GPU pause for it.")
@COMMAND
def command(
    name: str,
    weight: float | None,
    priority: str | None,
    group: str | None,
    memory_limit: int | None,
    total_steps: int | None,
    serves: bool,
    command: tuple[str, ...],
) -> None:
    """Run COMMAND so that every PyTorch process in it shares the GPU and takes turns by training step.

    Steps are found through PyTorch's own optimizer hooks and DataLoader fetches; launchers such as torchrun and
    accelerate need nothing. The exit status and signals are COMMAND's own.
    """
    configure()
    if memory_limit:
        _check_limit(memory_limit)
    given = {
        "HOCKET_NAME": name,
        "HOCKET_WEIGHT": weight,
        "HOCKET_PRIORITY": priority,
        "HOCKET_GROUP": group,
        "HOCKET_MEMORY_LIMIT": memory_limit,
        "HOCKET_TOTAL_STEPS": total_steps,
        "HOCKET_SERVES": int(serves),
    }
    variables = {variable: str(value) for variable, value in given.items() if value}
    if why := without_hocket(command, environment({})):
        click.echo(f"hocket: {why}", err=True)
    become(command, {"HOCKET_RUN": "1", **variables}, "hocket run -- python train.py")


def _check_limit(limit: int) -> None:
    """Before the program starts: a limit that no device has is a mistake. Without a device there is nothing to say."""
    capacity = max((device["capacity"] for device in control().probe_driver()["devices"]), default=limit)
    if limit > capacity:
        raise click.UsageError(
            f"--memory-limit is {size(limit)}, and the largest device has {size(capacity)}. "
            "Leave it out to allow the whole device."
        )
