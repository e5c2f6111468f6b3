"""``hocket doctor``: what was found on this machine, and what to do about each problem. The checks are in checks.py."""

from __future__ import annotations

import sys

import click

MARKS = {"well": click.style("ok", fg="green"), "note": click.style("--", fg="yellow"),
         "problem": click.style("!!", fg="red")}  # fmt: skip


@click.command()
def command() -> None:
    """What was found on this machine, and what to do about each problem.

    Exit status 1 when something keeps Hocket from working; notes do not count.
    """
    from hocket.cli import checks

    problems = 0
    for finding in checks.run_all():
        problems += finding.level == "problem"
        click.echo(f"{MARKS[finding.level]}  {finding.what}")
        if finding.advice:
            click.echo(f"      {finding.advice}")
    click.echo(
        f"\n{problems} problem{'s' * (problems != 1)}." if problems else "\nEverything that Hocket needs is there."
    )
    sys.exit(1 if problems else 0)
