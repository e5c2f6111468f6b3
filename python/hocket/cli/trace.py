"""``hocket trace``: what the coordinator has recorded, as a file to look at or to replay."""

from __future__ import annotations

import contextlib
import json
import math
import os
import shutil
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
        said = _jobs_and_turns(folder, output, from_s)
    said = {"file": str(output), **said}
    if as_json:
        click.echo(json.dumps(said))
        return
    spills = f", {said['spills']} spills" if said["spills"] else ""
    click.echo(f"{output}: {said['jobs']} jobs, {said['turns']} turns{spills}{_when(said)}")
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


def _jobs_and_turns(folder: Path, output: Path, from_s: float) -> Item:
    """Lets hocketd, which writes the format, read it."""
    with _in_place_of(output) as file:
        command = _reader(folder, from_s, f"--output={file.absolute()}")
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise _failed(done.returncode, done.stderr.replace(str(file.absolute()), str(output.absolute())))
        return json.loads(done.stdout)


def _failed(status: int, said: str) -> click.ClickException:
    how = f"was ended by signal {-status}" if status < 0 else f"ended with status {status}"
    sentence = said.strip().removeprefix("hocketd history: ")
    return click.ClickException(sentence or f"hocketd history, which reads what was recorded, {how}. Try again.")


def _reader(folder: Path, from_s: float, *flags: str) -> list[str]:
    program = serve.daemon()
    if not os.access(program, os.X_OK):
        raise click.ClickException(
            f"there is no coordinator at {program}, which reads the history. Install Hocket again."
        )
    return [str(program), "history", str(folder), f"--since={from_s:.3f}", *flags]


def _picture(folder: Path, output: Path, from_s: float) -> Item:
    """A turn at a time: there may be millions."""
    command = _reader(folder, from_s, "--lines")
    with _in_place_of(output) as file:
        torn = False
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as reader:
            assert reader.stdout and reader.stderr
            try:
                _write_picture(file, (json.loads(line) for line in reader.stdout if line.strip()))
            except ValueError:  # a line without its end: the reader was killed
                torn = True
            said = reader.stderr.read()
        if torn or reader.returncode != 0:
            raise _failed(reader.returncode, said)
        return json.loads(said)


# --- in memory ----------------------------------------------------------------------------------------


def _from_memory(output: Path, from_s: float, perfetto: bool) -> Item:
    trace = remembered(from_s)
    with _in_place_of(output) as file:
        if perfetto:
            _write_picture(file, sorted(trace["turns"] + trace["spills"], key=lambda item: item["end_ns"]))
        else:
            _write(file, [json.dumps(trace), "\n"])
    return {what: len(trace[what]) for what in ("jobs", "turns", "spills")}


def remembered(from_s: float = 0.0) -> Item:
    """All that the coordinator remembers: jobs as simulate reads them, turns and spills that ended since ``from_s``."""
    jobs = ask("jobs")["jobs"]
    turns = _all_pages("turns")
    try:
        spills = _all_pages("spills")
    except click.ClickException:  # an older coordinator does not say
        spills = []
    ahead = time.time_ns() - time.monotonic_ns()
    for item in turns + spills:
        item["start_ns"] += ahead
        item["end_ns"] += ahead
    first = min((job["arrival_s"] for job in jobs), default=0.0)
    return {
        "jobs": [{**job, "arrival_s": job["arrival_s"] - first} for job in jobs],
        "turns": [turn for turn in turns if turn["end_ns"] >= from_s * 1e9],
        "spills": [spill for spill in spills if spill["end_ns"] >= from_s * 1e9],
    }


def _all_pages(what: str) -> list[Item]:
    """Those that there are when it begins: of what comes meanwhile there might be more than can be asked for."""
    page = ask(what, since=0)
    items, end = page[what], page.get("end", math.inf)  # an older coordinator does not say where that is
    while page[what] and page["next"] < end:
        page = ask(what, since=page["next"])
        items += page[what]
    return items


# --- what is written ----------------------------------------------------------------------------------


@contextlib.contextmanager
def _in_place_of(output: Path) -> Iterator[Path]:
    """Where to write what is to be ``output``: beside it, until all is written. What fails leaves it as it was."""
    target = Path(os.path.realpath(output))
    # A device or a pipe is written to; in a folder of others there is no place beside.
    is_beside = (target.is_file() or not target.exists()) and os.access(target.parent, os.W_OK | os.X_OK)
    file = target.with_name(f"{target.name}.new") if is_beside else output
    try:
        yield file
        if is_beside:
            if target.exists():
                shutil.copymode(target, file)
            file.replace(target)
    except OSError as error:
        raise click.ClickException(f"cannot write {output}: {error.strerror}") from None
    finally:
        if is_beside:
            file.unlink(missing_ok=True)


def _write(file: Path, parts: Iterable[str]) -> None:
    with file.open("w", encoding="utf-8") as opened:
        opened.writelines(parts)


def _write_picture(file: Path, items: Iterable[Item]) -> None:
    def parts() -> Iterator[str]:
        yield '{"traceEvents": [\n'
        between = ""
        for event in events(items):
            yield between + json.dumps(event)
            between = ",\n"
        yield "\n]}\n"

    _write(file, parts())


DAY_NS = 86_400 * 10**9  # a time after its begin is exact as a float, and none is negative


def events(items: Iterable[Item]) -> Iterator[Item]:
    """Turns, the waits for them, and spills as trace events: a process for each device, a thread for each job; in
    microseconds after the day before the first one ended."""
    devices: dict[str, int] = {}
    threads: dict[tuple[int, str], int] = {}  # numbers of jobs begin anew with a coordinator
    first: int | None = None
    for item in items:
        first = item["end_ns"] - DAY_NS if first is None else first
        if item["device"] not in devices:
            devices[item["device"]] = len(devices) + 1
            place = {"pid": devices[item["device"]]}
            yield {"ph": "M", **place, "name": "process_name", "args": {"name": item["device"]}}
        job = (item["job"], item["name"])
        is_new = job not in threads
        place = {"ph": "X", "pid": devices[item["device"]], "tid": threads.setdefault(job, len(threads) + 1)}
        if is_new:
            yield {**place, "ph": "M", "name": "thread_name", "args": {"name": item["name"]}}
        start, end = (item["start_ns"] - first) / 1e3, (item["end_ns"] - first) / 1e3
        if "turn" in item:
            yield from _events_of_turn(item, place, start, end)
        else:
            args = {"bytes": item["bytes"], "for": item["for"]}
            yield {**place, "name": "spills", "ts": start, "dur": end - start, "args": args}


def _events_of_turn(turn: Item, place: Item, start: float, end: float) -> Iterator[Item]:
    waited = turn.get("waited_ns", 0) / 1e3  # an older coordinator does not say
    ready = turn["ready_ns"] / 1e3
    if waited > 0:
        yield {**place, "name": "waits", "ts": start - waited, "dur": waited, "args": {}}
    if ready > 0:
        moved = {
            "restored": turn["restored"],
            "restored ahead of the turn": turn.get("ahead", 0),
            "spilled by others": turn["spilled"],
        }
        name = "restores" if turn["restored"] else "gets ready"
        yield {**place, "name": name, "ts": start, "dur": ready, "args": moved}
    args = {"turn": turn["turn"], "steps": turn["steps"], "why": turn["reason"], "died": turn["died"]}
    yield {**place, "name": "turn", "ts": start + ready, "dur": end - start - ready, "args": args}
