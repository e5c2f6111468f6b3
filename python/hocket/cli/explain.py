"""``hocket explain JOB``."""

from __future__ import annotations

import json
from typing import Any

import click

from hocket.cli.common import ask, duration

TIMES = {"step": "a step", "beside": "a step beside others", "gap": "between two turns", "ready": "to be ready"}
FEW = 8  # times, of which nothing can be said of how often the bounds hold


@click.command()
@click.argument("job")
@click.option("--json", "as_json", is_flag=True, help="As data.")
def command(job: str, as_json: bool) -> None:
    """Why JOB (its name or id) runs or waits: who has the turn since when, and what memory stands in the way.

    Below it the times that policies reckon with, what they usually are, and how often that was true: below 80 % the
    job is irregular, and priority and pack plan badly with it.
    """
    answer = ask("explain", job=job)
    if as_json:
        return click.echo(json.dumps(answer, indent=1))
    click.echo(f"{answer['name']} {answer['why']}.")
    measured = answer.get("measured") or {}  # an older coordinator says nothing
    for key, name in TIMES.items():
        if measured.get(key):
            click.echo(f"  {name}: {_foretold(measured[key])}")
    return None


def _foretold(of: dict[str, Any]) -> str:
    """``21.3 ms, usually 20.1 ms to 23.0 ms (true for 94% of 412)``."""
    said = duration(of["mean_ms"] / 1e3)
    if "foretold" not in of:
        return said
    said += f", usually {duration(of['lower_ms'] / 1e3)} to {duration(of['upper_ms'] / 1e3)}"
    if of["foretold"] < FEW:
        return said
    return f"{said} (true for {of['inside'] / of['foretold']:.0%} of {of['foretold']})"
