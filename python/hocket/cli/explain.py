"""``hocket explain JOB``."""

from __future__ import annotations

import json
from typing import Any

import click

from hocket.cli.common import ask, duration, size

TIMES = {"step": "a step", "beside": "a step beside others", "gap": "between two turns", "ready": "to be ready"}
MOVES = {"spill": "spills", "restore": "restores"}
FEW = 8  # times, of which nothing can be said of how often the bounds hold


@click.command()
@click.argument("job")
@click.option("--json", "as_json", is_flag=True, help="As data.")
def command(job: str, as_json: bool) -> None:
    """Why JOB (its name or id) runs or waits: who has the turn since when, and what memory stands in the way.

    Below it the times that policies reckon with, what they usually are, and how often that was true: below 80 % the
    job is irregular, and priority and pack plan badly with it. Then what moved of its memory to the host and back, and
    how far that was off what was foretold; and how many of its allocations a plan placed, and what survived its steps.
    """
    answer = ask("explain", job=job)
    if as_json:
        return click.echo(json.dumps(answer, indent=1))
    click.echo(f"{answer['name']} {answer['why']}.")
    measured = answer.get("measured") or {}  # an older coordinator says nothing
    for key, name in TIMES.items():
        if measured.get(key):
            click.echo(f"  {name}: {_foretold(measured[key])}")
    for key, name in MOVES.items():
        if line := _moved((answer.get("moves") or {}).get(key)):
            click.echo(f"  {name}: {line}")
    if allocator := answer.get("allocator"):
        click.echo(f"  placed by plan: {_planned(allocator)}")
        click.echo(f"  survivors: {_survived(allocator)}")
    return None


def _moved(of: dict[str, Any] | None) -> str:
    """``12, 3.0 GiB in 1.31 s; foretold but for 0% of the bytes, 12% of the time; all of it now: 1.2 GiB, 98.0 ms``."""
    if not of or not (of["moves"] or of["now"]["bytes"]):
        return ""
    said = []
    if of["moves"]:
        said.append(f"{of['moves']}, {size(of['bytes'])} in {duration(of['s'])}")
        errors = {"bytes": of["bytes_error"], "time": of["timed"]["error"]}
        if known := [f"{error:.0%} of the {what}" for what, error in errors.items() if error is not None]:
            said.append(f"foretold but for {', '.join(known)}")
    if of["now"]["bytes"]:
        takes = "" if of["now"]["s"] is None else f", {duration(of['now']['s'])}"
        said.append(f"all of it now: {size(of['now']['bytes'])}{takes}")
    return "; ".join(said)


def _planned(of: dict[str, Any]) -> str:
    """``99.8% of 120345 allocations in steps, 12 deviated``."""
    share = of["planned"] / of["allocations"]
    return f"{share:.1%} of {of['allocations']} allocations in steps, {of['deviated']} deviated"


def _survived(of: dict[str, Any]) -> str:
    """``99.0% of 1.2 GiB foreseen; adopted 0 B at the last hand-over, 24.0 MiB in all, 8.0 MiB held now``."""
    said = f"{of['foreseen'] / of['survived']:.1%} of {size(of['survived'])} foreseen; " if of["survived"] else ""
    last, total, now = (size(of[key]) for key in ("adopted_last", "adopted_total", "adopted"))
    return f"{said}adopted {last} at the last hand-over, {total} in all, {now} held now"


def _foretold(of: dict[str, Any]) -> str:
    """``21.3 ms, usually 20.1 ms to 23.0 ms (true for 94% of 412)``."""
    said = duration(of["mean_ms"] / 1e3)
    if "foretold" not in of:
        return said
    said += f", usually {duration(of['lower_ms'] / 1e3)} to {duration(of['upper_ms'] / 1e3)}"
    if of["foretold"] < FEW:
        return said
    return f"{said} (true for {of['inside'] / of['foretold']:.0%} of {of['foretold']})"
