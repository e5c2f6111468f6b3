"""``hocket simulate``: what would other policies have done?"""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import click

from hocket.cli import picture as picture_file
from hocket.cli import policy as own
from hocket.cli import serve
from hocket.cli.options import Number, Size


@click.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--policy",
    "policies",
    multiple=True,
    help="Several may be given, also files of your own (./mine.py). Default: queue, fair, srtf.",
)
@click.option("--devices", type=click.IntRange(min=1), default=1, show_default=True)
@click.option("--memory", type=Size(), default="16GiB", show_default=True, help="Of each device.")
@click.option("--hand-over-ms", type=Number(min=0), default=0.0, help="Cost of a turn's begin.")
@click.option("--starting", type=click.IntRange(min=0), default=0,
              help="At most so many jobs start up at the same time; 0: no limit.")  # fmt: skip
@click.option("--together", type=click.IntRange(1, 16), default=4, show_default=True, help="pack: so many in one turn.")
@click.option("--picture", type=click.Path(dir_okay=False, path_type=Path), help="Draw the policies side by side.")
@click.option("--json", "as_json", is_flag=True, help="As data.")
def command(file: Path, policies: tuple[str, ...], devices: int, memory: int, hand_over_ms: float, starting: int,
            together: int, picture: Path | None, as_json: bool) -> None:  # fmt: skip
    """Play the jobs of FILE under several policies, in virtual time, with the coordinator's own code.

    FILE comes from hocket trace, or is CSV whose first line names the columns: name, arrival_s, steps, step_ms,
    gap_ms (on the host, between two steps), away (1: the job gives its turn at once in its gaps), startup_s,
    persistent (bytes), user (a uid), weight, priority, told_steps (how many the policy is told of), kind, transient
    (bytes). The policy `queue` is the baseline: one job after the other. pack needs JSON that says what jobs run at
    beside each other, as a share of their speed alone: "pairs": {"kind": {"other kind": 0.7}}; 0, both ways: they do
    not fit beside each other. A policy of your own is a process for each device; if it fails, the command does.
    """
    flags = {
        "devices": devices, "memory": memory, "hand-over-ms": hand_over_ms, "starting": starting,
        "together": together,
    }  # fmt: skip
    given = [own.program(policy) if own.is_own(policy) else policy for policy in policies]
    if picture:
        picture_file.check(picture)
    answer = play(file, flags, given, each=picture is not None)
    click.echo(json.dumps(answer, indent=1)) if as_json else _print(answer)
    if picture:
        with picture_file.drawn(picture):
            _draw(answer, picture)
        if not as_json:
            click.echo(f"Picture: {picture}")


def play(file: Path, flags: dict[str, Any], policies: list[str], each: bool) -> dict[str, Any]:
    """What ``hocketd simulate`` answers; exit status and sentence are its own where it fails. What a policy of the
    user's own prints goes to stderr.
    """
    program = serve.daemon()
    if not os.access(program, os.X_OK):
        raise click.ClickException(f"there is no coordinator at {program}, which simulates. Install Hocket again.")
    arguments = [f"--{name}={value}" for name, value in flags.items()] + (["--each"] if each else [])
    arguments += [f"--policy={policy}" for policy in policies]
    done = subprocess.run(
        [program, "simulate", str(file), *arguments], capture_output=True, text=True, errors="replace", check=False
    )
    if done.returncode != 0:
        raise click.ClickException(_why(program, file, done))
    click.echo(done.stderr, err=True, nl=False)
    return json.loads(done.stdout)


def _why(program: Path, file: Path, done: subprocess.CompletedProcess[str]) -> str:
    """Its own sentence; where it had none, how it ended."""
    said = done.stderr.strip().rpartition("hocketd simulate: ")[2]
    if done.returncode > 0 and said:
        return said
    how = f"ended with status {done.returncode} and said nothing"
    if done.returncode < 0:
        how = f"was ended by {_signal(-done.returncode)}{f', and said: {said}' if said else ''}"
    return f"cannot simulate {file}: {program} {how}. Is there too little memory? Try a part of the file's jobs."


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # one of those for real time
        return f"signal {number}"


def _print(answer: dict[str, Any]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(title="simulated; seconds", title_justify="left", box=box.SIMPLE_HEAD, padding=(0, 1))
    table.add_column("policy")
    columns = ("mean_jct_s", "median_jct_s", "p95_jct_s", "p99_jct_s", "mean_queue_s", "makespan_s")
    for column in (*columns, "slowdown", "busy", "turns"):
        table.add_column(column.removesuffix("_s").replace("_", " ").replace("jct", "completion"), justify="right")
    for policy, report in answer["policies"].items():
        numbers = [_shown(report[column], ",.1f") for column in columns]
        table.add_row(
            Text(policy),
            *numbers,
            _shown(report["mean_slowdown"], ".2f", "x"),
            _shown(report["busy"], ".1%"),
            str(report["turns"]),
        )
    Console(width=None if os.isatty(1) else 160).print(table)


def _shown(number: float | None, form: str, unit: str = "") -> str:
    """``-`` for a number that there is none of: nothing has ended."""
    return "-" if number is None else f"{number:{form}}{unit}"


def _draw(answer: dict[str, Any], picture: Path) -> None:
    """How many jobs were done after how long, a line for each policy; where each job ran, beside it."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, (done, means) = pyplot.subplots(1, 2, figsize=(11, 4), width_ratios=(3, 2))
    for policy, report in answer["policies"].items():
        times = sorted(end["end_s"] - end["arrival_s"] for end in report["ends"] if end["end_s"] is not None)
        done.step(times, [(i + 1) / len(report["ends"]) for i in range(len(times))], where="post", label=policy)
    done.set(xlabel="completion time (s)", ylabel="share of jobs done", title="simulated", ylim=(0, 1))
    done.legend()
    means.bar(list(answer["policies"]), [report["mean_jct_s"] or 0 for report in answer["policies"].values()])
    means.set(ylabel="mean completion time (s)")
    figure.tight_layout()
    figure.savefig(picture, dpi=120)
