"""``hocket trace``: what the coordinator has recorded, as a file to look at or to replay."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from hocket.cli.common import ask


@click.command()
@click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path), required=True, help="File to write.")
@click.option("--perfetto", is_flag=True, help="For ui.perfetto.dev, instead of for hocket simulate.")
@click.option("--json", "as_json", is_flag=True, help="Say as data what was written.")
def command(output: Path, perfetto: bool, as_json: bool) -> None:
    """Write the jobs and turns that the running coordinator remembers (its last 100,000 turns).

    `hocket simulate FILE` replays the jobs under other policies.
    """
    trace = recorded()
    text = json.dumps({"traceEvents": list(events(trace))} if perfetto else trace)
    try:
        output.write_text(text + "\n", encoding="utf-8")
    except OSError as error:
        raise click.ClickException(f"cannot write {output}: {error.strerror}") from None
    said = {"file": str(output), "jobs": len(trace["jobs"]), "turns": len(trace["turns"])}
    click.echo(json.dumps(said) if as_json else f"{output}: {said['jobs']} jobs, {said['turns']} turns")


def recorded() -> dict[str, Any]:
    """All that the coordinator remembers: jobs as simulate reads them, and turns."""
    jobs = ask("jobs")["jobs"]
    turns: list[dict[str, Any]] = []
    page = ask("turns", since=0)
    while page["turns"]:
        turns += page["turns"]
        page = ask("turns", since=page["next"])
    first = min((job["arrival_s"] for job in jobs), default=0.0)
    return {"jobs": [{**job, "arrival_s": job["arrival_s"] - first} for job in jobs], "turns": turns}


def events(trace: dict[str, Any]):
    """The turns and the waits for them as trace events: a process for each device, a thread for each job; in
    microseconds."""
    devices = {device: number for number, device in enumerate(sorted({turn["device"] for turn in trace["turns"]}), 1)}
    seen = set()
    for device, number in devices.items():
        yield {"ph": "M", "pid": number, "name": "process_name", "args": {"name": device}}
    for turn in trace["turns"]:
        place = {"pid": devices[turn["device"]], "tid": turn["job"]}
        if turn["job"] not in seen:
            seen.add(turn["job"])
            yield {"ph": "M", **place, "name": "thread_name", "args": {"name": turn["name"]}}
        start, end, ready = (turn[key] / 1e3 for key in ("start_ns", "end_ns", "ready_ns"))
        waited = turn.get("waited_ns", 0) / 1e3  # an older coordinator does not say
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
