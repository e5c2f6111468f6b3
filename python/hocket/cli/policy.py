"""``hocket policy [NAME]``."""

from __future__ import annotations

import json

import click

from hocket.cli.common import ask
from hocket.cli.options import Percent


@click.command()
@click.argument("name", required=False)
@click.option("--switch-share", type=click.FloatRange(0, 1, min_open=True),
              help="At most this share of the time goes into hand-overs that move bytes.")  # fmt: skip
@click.option(
    "--bound", type=Percent(), help="With priority, the others cost jobs of high priority at most this share."
)
@click.option("--json", "as_json", is_flag=True, help="As data.")
def command(name: str | None, switch_share: float | None, bound: float | None, as_json: bool) -> None:
    """Show who decides whose turn is next and what else there is; with NAME, change it, from the next turn on."""
    given = {"name": name or None, "bound": bound}
    answer = ask("policy", **{key: value for key, value in given.items() if value is not None})
    share = ask("switch-share", **({} if switch_share is None else {"share": switch_share}))["share"]
    if as_json:
        click.echo(json.dumps({**answer, "switch_share": share}, indent=1))
        return
    click.echo(f"policy {answer['policy']}; hand-overs that move bytes take at most {share:.1%} of the time")
    if answer["policy"] == "priority":
        click.echo(f"jobs of high priority are slowed down by the others by at most {answer['bound']:.1%}")
    if not name and switch_share is None and bound is None:
        for policy in answer["policies"]:
            click.echo(f"  {policy['name']:<14} {policy['summary']}")
