"""``hocket quota [JOB]``."""

from __future__ import annotations

import json
import pwd
from typing import Any

import click

from hocket.cli.common import ask, duration, size
from hocket.cli.options import GroupName, Percent, Size, User, Weight, said


@click.command()
@click.argument("job", required=False)
@click.option("--group", type=GroupName(), help="The jobs of this group together (hocket set JOB --group).")
@click.option("--user", type=User(), help="The jobs of this user together.")
@click.option("--time-cap", type=Percent(or_none=True),
              help="The most of its device's time, also when nobody waits; none: no cap.")  # fmt: skip
@click.option("--time-guarantee", type=Percent(or_none=True),
              help="At least so much of it when it wants it, before any policy; none: as the policy says.")  # fmt: skip
@click.option("--memory-cap", type=Size(or_none=True),
              help="The most memory it may hold, on the device and spilled; none: no cap.")  # fmt: skip
@click.option("--memory-guarantee", type=Size(or_none=True),
              help="So much of it is spilled last, when nothing else makes room; none: nothing.")  # fmt: skip
@click.option("--weight", type=Weight(or_none=True),
              help="With --user: the share of all that user's jobs against other users' (fair); none: 1.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="As data.")
def command(job: str | None, group: str | None, user: int | None, as_json: bool, **options: Any) -> None:
    """Show what jobs may use at most and get at least, and what they use; with an option, change it for JOB (its
    name or id), for a group or for a user.

    A share of time holds over every 10 s, within one point or the longest step. Quotas of a job are kept until it
    ends, those of a group or a user until they are changed; on each device.
    """
    whose = {name: value for name, value in {"job": job, "group": group, "user": user}.items() if value is not None}
    if len(whose) > 1:
        raise click.UsageError("a quota is a job's, a group's or a user's: give one of JOB, --group and --user")
    changes = said(options)
    if "weight" in changes and user is None:
        raise click.UsageError("a weight here is a user's: --user U --weight W. A job's: hocket set JOB --weight W")
    if changes and not whose:
        raise click.UsageError("name the JOB, --group or --user whose quota is to be changed")
    answer = ask("quota", **whose, **changes)
    if as_json:
        click.echo(json.dumps(answer, indent=1))
        return
    for quota in answer["quotas"]:
        click.echo(f"{quota['name']}: {'; '.join(_of_job(quota)) or 'no quota'}")
    together = answer.get("together", [])  # an older coordinator knows none
    for quota in together:
        click.echo(f"{_whose(quota)}: {'; '.join(_of_jobs_together(quota))}")
    if not answer["quotas"] and not together:
        click.echo("no job runs.")


def _of_job(quota: dict[str, Any]) -> list[str]:
    text = _of_time(quota)
    if text:
        text += _had(quota)
    if quota["memory_cap"] is not None:
        text.append(f"memory cap {size(quota['memory_cap'])}")
    if quota["memory_guarantee"]:
        text.append(f"memory guarantee {size(quota['memory_guarantee'])}")
    if text and (quota["memory_cap"] is not None or quota["memory_guarantee"]):
        text.append(f"holds {size(quota['memory_held'])}, {size(quota['memory_resident'])} of it on the device")
    if quota["memory_cap"] is not None and quota["memory_held"] > quota["memory_cap"]:
        text.append("more than its cap: it keeps that, and gets no more")
    return text


def _of_jobs_together(quota: dict[str, Any]) -> list[str]:
    text = _of_time(quota)
    cap = quota.get("memory_cap")  # an older coordinator knows none
    if cap is not None:
        text.append(f"memory cap {size(cap)}")
    if quota["memory_guarantee"]:
        text.append(f"memory guarantee {size(quota['memory_guarantee'])}")
    if quota.get("weight") is not None:  # an older coordinator knows none
        text.append(f"weight {quota['weight']:g}")
    if not text:
        text.append("no quota")
    for used in quota["devices"]:
        text.append(", ".join([f"on {used['device']}", *_had(used), *_holds(used, cap)]))
    text.append(f"jobs: {', '.join(quota['jobs'])}" if quota["jobs"] else "no job now")
    return text


def _of_time(quota: dict[str, Any]) -> list[str]:
    kinds = {"time_cap": "time cap", "time_guarantee": "time guarantee"}
    return [f"{text} {100 * quota[kind]:.3g}%" for kind, text in kinds.items() if quota.get(kind) is not None]


def _holds(used: dict[str, Any], cap: int | None) -> list[str]:
    if cap is None or "memory_held" not in used:
        return []
    text = [f"holds {size(used['memory_held'])}"]
    if used["memory_held"] > cap:
        text.append("more than its cap: the jobs keep that, and get no more")
    return text


def _had(used: dict[str, Any]) -> list[str]:
    if "time_used" not in used:
        return []
    text = [f"has had {used['time_used']:.1%} of the last {used['window_s']:.1f} s"]
    if used.get("may_go_on_in_s", 0) > 0:
        text.append(f"may go on in {duration(used['may_go_on_in_s'])}")
    if used.get("owed_s", 0) > 0:
        text.append(f"is owed {duration(used['owed_s'])}")
    return text


def _whose(quota: dict[str, Any]) -> str:
    if quota["kind"] == "group":
        return f"group {quota['name']}"
    try:
        return f"user {pwd.getpwuid(quota['uid']).pw_name}"
    except KeyError:
        return f"user {quota['uid']}"
