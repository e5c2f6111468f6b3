"""``hocket trace``: what the coordinator has recorded, as a file to look at or to replay."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import click

from hocket.cli import common, serve
from hocket.cli.common import ask
from hocket.cli.options import Span

PATIENCE_S = 2.0  # until the coordinator has written down what it has in memory
Item = dict[str, Any]


@click.command()
@click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path), required=True, help="File to write.")
@click.option("--since", type=Span(), help="Turns of this time until now: 24h, 90m. Default: all there are.")
@click.option("--perfetto", is_flag=True, help="For ui.perfetto.dev, instead of for hocket simulate.")
@click.option("--json", "as_json", is_flag=True, help="Say as data what was written.")
def command(output: Path, since: float | None, perfetto: bool, as_json: bool) -> None:
    """Write the jobs and turns of the last days, as the coordinator has recorded them.

    `hocket simulate FILE` replays the jobs under other policies. How far it goes back: `history_size` and
    `history_days` in the config file (see hocket config). Where nothing is on disk it is the last 100,000 turns.
    """
    from_s = 0.0 if since is None else time.time() - since
    folder = recorded_in()
    if folder is None:
        said = _from_memory(output, from_s, perfetto)
    elif perfetto:
        said = _picture(folder, output, from_s)
    else:
        said = json.loads(_history(folder, from_s, f"--output={output.absolute()}").stdout)
    said = {"file": str(output), **said}
    if as_json:
        click.echo(json.dumps(said))
        return
    click.echo(f"{output}: {said['jobs']} jobs, {said['turns']} turns{_when(said)}")
    if said.get("damaged"):
        click.echo(f"{said['damaged']} pieces of {folder} are torn or garbage: they are left out.", err=True)
    if said.get("lost"):
        click.echo(f"{said['lost']} records could not be written when they were made: they are missing.", err=True)


def _when(said: Item) -> str:
    if not said.get("from_s"):
        return ""
    first, last = (time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(said[key])) for key in ("from_s", "until_s"))
    return f", {first} to {last}"


# --- on disk ------------------------------------------------------------------------------------------


def recorded_in() -> Path | None:
    """The folder in which all is on disk that has been recorded until now; None: the coordinator's memory has more.

    Also where no coordinator runs: then what the last one has left.
    """
    try:
        answer = common.ask_if_it_runs("history")
    except click.ClickException:  # an older one, or another user's: it tells its turns
        return None
    if answer is None:
        left = Path(common.socket_path()).parent / "history"
        return left if left.is_dir() and os.access(left, os.R_OK | os.X_OK) else None
    if not answer.get("folder"):
        return None
    wanted, until = answer["records"], time.monotonic() + PATIENCE_S
    while answer["written"] + answer["lost"] < wanted and time.monotonic() < until:
        time.sleep(0.01)
        answer = ask("history")
    if not answer["trouble"] and answer["written"] + answer["lost"] >= wanted:
        return Path(answer["folder"])
    why = answer["trouble"] or f"{answer['folder']} is not written to in time"
    click.echo(f"{why}. These are the turns that the coordinator remembers, 100,000 at most.", err=True)
    return None


def _history(folder: Path, from_s: float, *flags: str) -> subprocess.CompletedProcess[str]:
    """Lets hocketd, which writes the format, read it."""
    done = subprocess.run(_reader(folder, from_s, *flags), capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise click.ClickException(done.stderr.strip().removeprefix("hocketd history: "))
    return done


def _reader(folder: Path, from_s: float, *flags: str) -> list[str]:
    program = serve.daemon()
    if not os.access(program, os.X_OK):
        raise click.ClickException(
            f"there is no coordinator at {program}, which reads the history. Install Hocket again."
        )
    return [str(program), "history", str(folder), f"--since={from_s:.3f}", *flags]


def _picture(folder: Path, output: Path, from_s: float) -> Item:
    """A turn at a time: there may be millions."""
    with subprocess.Popen(
        _reader(folder, from_s, "--lines"), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as reader:
        assert reader.stdout and reader.stderr
        _write_picture(output, (json.loads(line) for line in reader.stdout if line.strip()))
        said = reader.stderr.read()
    if reader.returncode != 0:
        raise click.ClickException(said.strip().removeprefix("hocketd history: "))
    return json.loads(said)


# --- in memory ----------------------------------------------------------------------------------------


def _from_memory(output: Path, from_s: float, perfetto: bool) -> Item:
    trace = remembered(from_s)
    if perfetto:
        _write_picture(output, trace["turns"])
    else:
        _write(output, [json.dumps(trace), "\n"])
    return {"jobs": len(trace["jobs"]), "turns": len(trace["turns"])}


def remembered(from_s: float = 0.0) -> Item:
    """All that the coordinator remembers: jobs as simulate reads them, and turns that ended since ``from_s``."""
    jobs = ask("jobs")["jobs"]
    ahead = time.time_ns() - time.monotonic_ns()
    turns: list[Item] = []
    page = ask("turns", since=0)
    while page["turns"]:
        turns += page["turns"]
        page = ask("turns", since=page["next"])
    for turn in turns:
        turn["start_ns"] += ahead
        turn["end_ns"] += ahead
    first = min((job["arrival_s"] for job in jobs), default=0.0)
    return {
        "jobs": [{**job, "arrival_s": job["arrival_s"] - first} for job in jobs],
        "turns": [turn for turn in turns if turn["end_ns"] >= from_s * 1e9],
    }


# --- what is written ----------------------------------------------------------------------------------


def _write(output: Path, parts: Iterable[str]) -> None:
    try:
        with output.open("w", encoding="utf-8") as file:
            file.writelines(parts)
    except OSError as error:
        raise click.ClickException(f"cannot write {output}: {error.strerror}") from None


def _write_picture(output: Path, turns: Iterable[Item]) -> None:
    def parts() -> Iterator[str]:
        yield '{"traceEvents": [\n'
        between = ""
        for event in events(turns):
            yield between + json.dumps(event)
            between = ",\n"
        yield "\n]}\n"

    _write(output, parts())


def events(turns: Iterable[Item]) -> Iterator[Item]:
    """The turns and the waits for them as trace events: a process for each device, a thread for each job; in
    microseconds after the first one began to wait."""
    devices: dict[str, int] = {}
    threads: dict[tuple[int, str], int] = {}  # numbers of jobs begin anew with a coordinator
    first: int | None = None
    for turn in turns:
        if turn["device"] not in devices:
            devices[turn["device"]] = len(devices) + 1
            place = {"pid": devices[turn["device"]]}
            yield {"ph": "M", **place, "name": "process_name", "args": {"name": turn["device"]}}
        job = (turn["job"], turn["name"])
        is_new = job not in threads
        place = {"pid": devices[turn["device"]], "tid": threads.setdefault(job, len(threads) + 1)}
        if is_new:
            yield {"ph": "M", **place, "name": "thread_name", "args": {"name": turn["name"]}}
        waited = turn.get("waited_ns", 0) / 1e3  # an older coordinator does not say
        if first is None:
            first = turn["start_ns"] - turn.get("waited_ns", 0)
        start, end, ready = (turn["start_ns"] - first) / 1e3, (turn["end_ns"] - first) / 1e3, turn["ready_ns"] / 1e3
        if waited > 0:
            yield {"ph": "X", **place, "name": "waits", "ts": start - waited, "dur": waited, "args": {}}
        if ready > 0:
            moved = {
                "restored": turn["restored"],
                "restored ahead of the turn": turn.get("ahead", 0),
                "spilled by others": turn["spilled"],
            }
            yield {
                "ph": "X",
                **place,
                "name": "restores" if turn["restored"] else "gets ready",
                "ts": start,
                "dur": ready,
                "args": moved,
            }
        args = {"turn": turn["turn"], "steps": turn["steps"], "why": turn["reason"], "died": turn["died"]}
        yield {"ph": "X", **place, "name": "turn", "ts": start + ready, "dur": end - start - ready, "args": args}
