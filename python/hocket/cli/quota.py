"""``hocket quota [JOB]``."""

from __future__ import annotations

import json
from typing import Any

import click

from hocket.cli.common import ask, duration, size
from hocket.cli.options import Percent, Size, said


@click.command()
@click.argument("job", required=False)
@click.option("--time-cap", type=Percent(or_none=True),
              help="The most it has of its device's time, also when nobody waits; none: no cap.")  # fmt: skip
@click.option("--memory-cap", type=Size(or_none=True),
              help="The most memory it may hold, as hocket set --memory-limit; none: no cap.")  # fmt: skip
@click.option("--memory-guarantee", type=Size(or_none=True),
              help="So much of it is spilled last, when nothing else makes room; none: nothing.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="As data.")
def command(job: str | None, as_json: bool, **options: Any) -> None:
    """Show what jobs may use at most, and what they use; with an option, change it for JOB (its name or id).

    A time cap holds over every 10 s, within one point or the longest step. Quotas are kept until the job ends.
    """
    changes = said(options)
    if changes and not job:
        raise click.UsageError("name the JOB whose quota is to be changed")
    answer = ask("quota", **({"job": job} if job else {}), **changes)
    if as_json:
        click.echo(json.dumps(answer, indent=1))
        return
    for quota in answer["quotas"]:
        click.echo(f"{quota['name']}: {'; '.join(_sentences(quota)) or 'no quota'}")
    if not answer["quotas"]:
        click.echo("no job runs.")


def _sentences(quota: dict[str, Any]) -> list[str]:
    text = []
    if quota["time_cap"] is not None:
        text.append(f"time cap {100 * quota['time_cap']:.3g}%")
        text.append(f"has had {quota['time_used']:.1%} of the last {quota['window_s']:.1f} s")
        if quota["may_go_on_in_s"] > 0:
            text.append(f"may go on in {duration(quota['may_go_on_in_s'])}")
    if quota["memory_cap"] is not None:
        text.append(f"memory cap {size(quota['memory_cap'])}")
    if quota["memory_guarantee"]:
        text.append(f"memory guarantee {size(quota['memory_guarantee'])}")
    if text and (quota["memory_cap"] is not None or quota["memory_guarantee"]):
        text.append(f"holds {size(quota['memory_held'])}, {size(quota['memory_resident'])} of it on the device")
    if quota["memory_cap"] is not None and quota["memory_held"] > quota["memory_cap"]:
        text.append("more than its cap: it keeps that, and gets no more")
    return text
