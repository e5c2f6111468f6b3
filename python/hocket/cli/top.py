"""``hocket top``: the node, live in the terminal."""

from __future__ import annotations

import contextlib
import json
import sys
import time
from typing import Any

import click

from hocket.cli import common
from hocket.cli.options import INTERVAL

BAR = 30  # characters


@click.command()
@click.option("--json", "as_json", is_flag=True, help="As data, a line for each look.")
@click.option("--once", is_flag=True, help="Look once and end.")
@click.option("--interval", type=INTERVAL, default=1.0, show_default=True, help="Seconds.")
def command(as_json: bool, once: bool, interval: float) -> None:
    """Who has the turn, who waits and why, memory, slowdown against alone, time to go. Ends with Ctrl-C.

    Slowdown: the time of the job's last ten minutes over the same without waiting for turns, hand-overs and bytes that
    came back, standing still for requests, and what steps beside others took longer. 1.00x: as fast as alone; "-": not
    known. Time to go: the steps left at the pace so far, where the job has said how many it will run. It goes on while
    no coordinator runs; with --json "daemon" is null then. With --once it fails there.
    """
    with contextlib.suppress(KeyboardInterrupt):
        _show(as_json, once, interval)


def _show(as_json: bool, once: bool, interval: float) -> None:
    from rich.console import Console
    from rich.live import Live

    if once:
        status = common.ask("status")
        console = Console(width=None if sys.stdout.isatty() else 160)
        click.echo(json.dumps(status)) if as_json else console.print(shown(status))
        return
    while as_json:
        click.echo(json.dumps(common.watched()))
        time.sleep(interval)
    with Live(shown(common.ask_if_it_runs("status")), screen=sys.stdout.isatty(), auto_refresh=False) as live:
        while True:
            time.sleep(interval)
            live.update(shown(common.ask_if_it_runs("status")), refresh=True)


def shown(status: dict[str, Any] | None):
    """A status as rich draws it; None: no coordinator runs."""
    from rich.console import Group
    from rich.text import Text

    if status is None:
        return Text(common.none_runs())
    daemon = status["daemon"]
    head = Text(f"policy {common.policy(daemon)}, {len(status['jobs'])} jobs, coordinator pid {daemon['pid']}")
    parts: list[Any] = [head]
    for device in status["devices"]:
        jobs = [job for job in status["jobs"] if job["id"] in device["jobs"]]
        parts += [Text(), _memory(device, jobs), _jobs(jobs)]
    return Group(*parts)


def _memory(device: dict[str, Any], jobs: list[dict[str, Any]]):
    """A bar of the device's memory: what each job holds, the arena, what is free."""
    from rich.text import Text

    text = Text.assemble((device["name"], "bold"), f", turn: {device['holder'] or 'nobody'}")
    capacity = device["capacity"]
    if not capacity:
        return text
    text.append("\n[")
    colours = ("cyan", "green", "magenta", "yellow", "blue")
    drawn = 0
    held = [(job["persistent"], colours[i % len(colours)]) for i, job in enumerate(jobs)]
    for size, colour in [*held, (device["arena"], "white")]:
        cells = min(BAR - drawn, round(BAR * size / capacity))
        text.append("█" * cells, colour)
        drawn += cells
    text.append("·" * (BAR - drawn) + f"] {common.size(device['free'])} of {common.size(capacity)} free, ")
    text.append(f"transient {common.size(device['arena'])}")
    return text


def _jobs(jobs: list[dict[str, Any]]):
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1))
    table.add_column("job", no_wrap=True)
    for column in ("state", "steps", "step", "persistent", "spilled", "waited", "slowdown", "to go"):
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column("why")
    for job in jobs:
        state = Text("overdue", "bold red") if job["overdue"] else Text(job["state"])
        if job["state"] == "holds" and not job["overdue"]:
            state.stylize("bold green")
        table.add_row(
            Text(job["name"]),  # not str: in a job's name, [x] is no markup
            state,
            f"{job['steps']}/{job['total_steps']}" if job["total_steps"] else str(job["steps"]),
            common.duration(job["step_time_ms"] / 1e3),
            common.size(job["persistent"]),
            common.size(job["spilled"]),
            common.duration(job["waited_s"]),
            "-" if job["slowdown"] is None else f"{job['slowdown']:.2f}x",
            common.duration(job["to_go_s"]) if job["to_go_s"] is not None else "?",
            Text(job["why"]),
        )
    return table
