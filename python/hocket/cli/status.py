"""``hocket status``."""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import click

from hocket.cli import common
from hocket.cli.options import INTERVAL


@click.command()
@click.option("--json", "as_json", is_flag=True, help="As data: everything that the coordinator says.")
@click.option("--watch", is_flag=True, help="Again and again until Ctrl-C.")
@click.option("--interval", type=INTERVAL, default=1.0, show_default=True, help="Seconds, for --watch.")
def command(as_json: bool, watch: bool, interval: float) -> None:
    """Jobs, who has the turn, who waits and why, memory, turns, steps, step times.

    Where no coordinator runs it says so, with exit status 0; with --json it fails. --watch goes on meanwhile; with
    --json "daemon" is null then.
    """
    if watch:
        _watch(as_json, interval)
    elif as_json:
        click.echo(json.dumps(common.ask("status"), indent=1))
    else:
        _console().print(_shown(common.ask_if_it_runs("status")))


def _watch(as_json: bool, interval: float) -> None:
    from rich.live import Live

    try:
        if as_json:
            while True:
                click.echo(json.dumps(common.watched()))
                time.sleep(interval)
        with Live(_shown(common.ask_if_it_runs("status")), console=_console(), auto_refresh=False) as live:
            while True:
                time.sleep(interval)
                live.update(_shown(common.ask_if_it_runs("status")), refresh=True)
    except KeyboardInterrupt:
        pass


def _console():
    from rich.console import Console

    return Console(soft_wrap=False, width=None if sys.stdout.isatty() else 160)  # a pipe has no width


def _shown(status: dict[str, Any] | None):
    from rich.console import Group
    from rich.text import Text

    if status is None:
        return Text(common.none_runs())
    daemon = status["daemon"]
    head = Text(
        f"policy {common.policy(daemon)}; coordinator {daemon['version']}, pid {daemon['pid']}, "
        f"up {common.duration(daemon['uptime_s'])}"
    )
    shown = []
    for device in status["devices"]:
        shown += [_device(status, device), *(Text(line, style="yellow") for line in _others(daemon, device))]
    return Group(head, *shown)


def _others(daemon: dict[str, Any], device: dict[str, Any]) -> list[str]:
    """Other coordinators of the same device; an older one does not look for them."""
    return [
        f"A coordinator of uid {other['uid']} (pid {other['pid']}) gives turns on it, too: between the two the driver "
        f"time-slices, and memory is whoever's comes first. {common.one_for_both(daemon['uid'], other['uid'])}"
        for other in device.get("others", [])
    ]


def _device(status: dict[str, Any], device: dict[str, Any]):
    from rich import box
    from rich.table import Table
    from rich.text import Text

    title = device["name"]
    if device["capacity"]:
        title += (
            f", {common.size(device['capacity'])}: {common.size(device['free'])} free, "
            f"transient {common.size(device['arena'])}"
        )
    table = Table(title=Text(title, "bold"), title_justify="left", box=box.SIMPLE_HEAD, padding=(0, 1))
    table.add_column("job", no_wrap=True)
    table.add_column("state")
    for column in ("turns", "steps", "step", "persistent", "transient", "spilled"):
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column("why")
    for job in (job for job in status["jobs"] if job["id"] in device["jobs"]):
        table.add_row(*(Text(cell) for cell in _row(job)))  # not str: in a job's name, [x] is no markup
    return table


def _row(job: dict[str, Any]) -> list[str]:
    of = f"/{job['total_steps']}" if job["total_steps"] else ""
    return [
        job["name"],
        job["state"],
        str(job["turns"]),
        f"{job['steps']}{of}",
        common.duration(job["step_time_ms"] / 1e3),
        *(common.size(job[memory]) for memory in ("persistent", "transient", "spilled")),
        job["why"],
    ]
