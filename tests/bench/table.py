"""Makes docs/results/README.md from the raw data beside it. Nothing in that page is typed by hand."""

from __future__ import annotations

import json
import re
import subprocess
from typing import Any

from tests.bench import causes, harness, pictures
from tests.bench.harness import EMULATED, RESULTS, ROOT

HEAD = """# Results

Made by `scripts/bench` from the JSON files beside this page. A figure is the median of ratios measured in one run,
interleaved with its baseline, and its 95 % bootstrap interval. A goal is met, or not, where the whole interval lies on
one side of it; *within the interval*: the goal lies inside, and the run does not decide it. *emulated*: measured on the
emulated GPU; such a figure says nothing about a real one. *stale*: the code the figure speaks of has changed since.
*busy*: the machine had other work while it was measured (load per core at the end of the run), and real-time scheduling
was not allowed. *Not measured*: what the figure is about is not there, and why; it counts for nothing. Where CPU time
stands beside wall time, and not instructions retired, that machine's processor counts none for us (`perf_event_open`
says ENOENT).

| figure | goal | measured | met | baseline | device | torch | commit, date |
|---|---|---|---|---|---|---|---|
"""
CAUSES = """
Goals that are not met, or lie within the interval, why, and what was tried:

"""
CHECKS = """
What either holds or does not:

| tried | held | seen | device | torch | commit, date |
|---|---|---|---|---|---|
"""
# What a figure speaks of, where its record does not say it: paths, as git takes them.
CODE = ("allocator", "csrc", *harness.COORDINATOR, *harness.PYTHON)
NO_CODE = ":(exclude)*.md"
BUSY = 1.6  # of the load per core: a benchmark's own processes keep it near 1


def goal(figure: dict[str, Any]) -> str:
    return f"{'>=' if figure.get('at_least') else '<='} {figure['goal']:g}"


def met(figure: dict[str, Any]) -> str:
    return {"yes": "yes", "no": "**no**"}.get(harness.met(figure), f"*{harness.met(figure)}*")


def value(figure: dict[str, Any]) -> str:
    unit = "" if figure.get("unit", "ratio") == "ratio" else f" {figure['unit']}"
    bounds = f"[{figure['low']:.4f} .. {figure['high']:.4f}]"
    return f"{figure['value']:.4f}{unit} {bounds}, n = {len(figure['samples'])}"


def stale(data: dict[str, Any]) -> bool:
    """Whether the code that it speaks of changed after its commit."""
    base = data["commit"].removesuffix("-dirty")
    command = ["git", "-C", str(ROOT), "diff", "--quiet", base, "HEAD", "--", *data.get("speaks_of", CODE), NO_CODE]
    return subprocess.run(command, capture_output=True).returncode != 0


def _busy(data: dict[str, Any]) -> str:
    if "load" not in data or data.get("scheduling") == "real time":
        return ""
    cores = int(data["machine"].split(" cores")[0].rsplit(" ", 1)[1])
    load = data["load"][0] / cores
    return f", *busy* ({load:.1f})" if load > BUSY else ""


def _device(data: dict[str, Any]) -> str:
    if data["device"] != EMULATED:
        return data["device"]
    costs = data.get("emulator_costs")
    return f"*{EMULATED}*" + (f", costs of {costs}" if costs else "")


def _row(figure: dict[str, Any], data: dict[str, Any]) -> str:
    marks = (", *stale*" if stale(data) else "") + _busy(data)
    device = _device(data)
    return (
        f"| {figure['text']} | {goal(figure)} | {value(figure)} | {met(figure)} | {figure['baseline']} | {device} | "
        f"{data['torch']} | {data['commit']}, {data['date']}{marks} |\n"
    )


def _not_measured_row(figure: dict[str, str], data: dict[str, Any]) -> str:
    return (
        f"| {figure['text']} | - | not measured: {figure['why'].replace('|', '/')} | - | {figure['baseline']} | "
        f"{_device(data)} | {data['torch']} | {data['commit']}, {data['date']}{', *stale*' if stale(data) else ''} |\n"
    )


def _check_row(check: dict[str, Any], data: dict[str, Any]) -> str:
    held = "yes" if check["held"] else "**no**"
    return (
        f"| {check['text']} | {held} | {check['seen']} | {_device(data)} | {data['torch']} | {data['commit']}, "
        f"{data['date']}{', *stale*' if stale(data) else ''} |\n"
    )


def _causes(rows: list[tuple[dict[str, Any], str]]) -> str:
    """Of the figures (each with its device) that do not surely meet their goals, in the order of the page.

    Those without a cause say so, and those of one cause stand together.
    """
    said: dict[str, list[str]] = {}
    for figure, device in sorted(rows, key=lambda row: (order(row[0]["name"]), row[1])):
        how = harness.met(figure)
        if how != "yes":
            notes = [f" ({note})" for note in (device, how) if note not in (EMULATED, "no")]
            said.setdefault(causes.of(figure["name"], device), []).append("".join([figure["text"], *notes]))
    return CAUSES + "".join(f"- {'; '.join(texts)}: {cause}\n" for cause, texts in said.items()) if said else ""


def order(name: str) -> list[str | float]:
    """Of the page's rows, by the figure's name: numbers in it by their size, 4 GiB before 16."""
    parts = re.split(r"(\d+(?:\.\d+)?)", name)
    return [float(part) if i % 2 else part for i, part in enumerate(parts)]


def _table(table: dict[str, Any]) -> str:
    lines = [table["columns"], ["---"] * len(table["columns"]), *table["rows"]]
    return f"\n{table['title']}:\n\n" + "".join(f"| {' | '.join(line)} |\n" for line in lines)


def write() -> str:
    """Writes the page and returns it."""
    page, machines = HEAD, {}
    records = [json.loads(path.read_text()) for path in sorted(RESULTS.glob("*.json"))]
    figures = [data for data in records if "figures" in data]
    rows = [(figure["name"], data["device"], _row(figure, data)) for data in figures for figure in data["figures"]]
    for data in figures:
        missing = data.get("not_measured", ())
        rows += [(figure["name"], data["device"], _not_measured_row(figure, data)) for figure in missing]
    # The emulated and the real figure of one benchmark stand side by side: its names on both begin alike.
    page += "".join(row for _, _, row in sorted(rows, key=lambda row: (order(row[0]), row[1])))
    page += pictures.draw_rates(records, RESULTS)
    page += _causes([(figure, data["device"]) for data in figures for figure in data["figures"]])
    page += CHECKS + "".join(_check_row(check, data) for data in records for check in data.get("checks", ()))
    page += "".join(_table(table) for data in records for table in data.get("tables", ()))
    for data in records:
        name = data.get("benchmark") or data["checked"]
        machines[data["machine"]] = [*machines.get(data["machine"], []), name]
    page += "\n" + "".join(f"{', '.join(names)}: on {machine}.\n" for machine, names in machines.items())
    (RESULTS / "README.md").write_text(page)
    return page
