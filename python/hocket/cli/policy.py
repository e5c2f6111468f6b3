"""``hocket policy [NAME]``."""

from __future__ import annotations

import click

from hocket.cli.common import ask


@click.command()
@click.argument("name", required=False)
def command(name: str | None) -> None:
    """Show who decides whose turn is next and what else there is; with NAME, change it, from the next turn on."""
    answer = ask("policy", **({"name": name} if name else {}))
    click.echo(f"policy: {answer['policy']}" + ("" if name else f" (there are: {', '.join(answer['available'])})"))
