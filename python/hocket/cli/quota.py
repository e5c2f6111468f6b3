"""``hocket quota [JOB]``."""

from __future__ import annotations

import json
from typing import Any

import click

from hocket.cli.common import ask, duration
from hocket.cli.options import NO_LIMIT, Percent


@click.command()
@click.argument("job", required=False)
@click.option("--time-cap", type=Percent(or_none=True),
              help="The most it has of its device's time, also when nobody waits; none: no cap.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="As data.")
def command(job: str | None, time_cap: float | str | None, as_json: bool) -> None:
    """Show what jobs may use at most, and what they use; with an option, change it for JOB (its name or id).

    A time cap holds over every 10 s, within one point or the longest step. It is kept until the job ends.
    """
    given = {"time_cap": time_cap}
    changes = {name: None if value == NO_LIMIT else value for name, value in given.items() if value is not None}
    if changes and not job:
        raise click.UsageError("name the JOB whose quota is to be changed")
    answer = ask("quota", **({"job": job} if job else {}), **changes)
    if as_json:
        click.echo(json.dumps(answer, indent=1))
        return
    for quota in answer["quotas"]:
        click.echo(f"{quota['name']}: {_sentence(quota)}")
    if not answer["quotas"]:
        click.echo("no job runs.")


def _sentence(quota: dict[str, Any]) -> str:
    if quota["time_cap"] is None:
        return "no quota"
    text = (
        f"time cap {100 * quota['time_cap']:.3g}%; "
        f"has had {quota['time_used']:.1%} of the last {quota['window_s']:.1f} s"
    )
    return text + (f"; may go on in {duration(quota['may_go_on_in_s'])}" if quota["may_go_on_in_s"] > 0 else "")
