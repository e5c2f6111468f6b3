"""Makes docs/results/simulated/README.md from the raw data beside it. Nothing in that page is typed by hand."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Callable
from typing import Any

from tests.bench import harness, table

FOLDER = harness.RESULTS / "simulated"
HEAD = """# Simulated

Made by `scripts/experiment NAME --workloads FOLDER` from the JSON files beside this page. **Nothing here was measured
on a device**: `hocketd simulate` plays jobs of public traces through the coordinator's own core and policies in virtual
time. What is taken for granted stands above each table. A goal's bound comes from a published number, or from one
computed from the same input without any cost; its source is named. *Stale*: the code has changed since.
"""


def draw(plot: Callable[[Any], None], path: pathlib.Path) -> None:
    """Has ``plot`` draw on a figure and writes it; the same data gives the same bytes."""
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "hocket"
    from matplotlib import pyplot

    figure = pyplot.figure(figsize=(10, 4))
    plot(figure)
    figure.suptitle("simulated", x=0.99, ha="right", fontsize=8)
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if not isinstance(value, float):
        return f"{value:,}" if isinstance(value, int) else str(value)
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def _rows(rows: list[dict[str, Any]]) -> str:
    lines = [list(rows[0]), ["---"] * len(rows[0]), *([_text(value) for value in row.values()] for row in rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def section(record: dict[str, Any]) -> str:
    """What is said of one experiment."""
    goals = [
        {
            "goal": goal["text"],
            "bound": f"{'>=' if goal['at_least'] else '<='} {goal['bound']:g}",
            "figure": goal["figure"],
            "met": "yes" if goal["met"] else "**no**",
            "of the bound": goal["source"],
        }
        for goal in record["goals"]
    ]
    stale = ", *stale*" if table.stale(record) else ""
    parts = [f"\n## {record['experiment']}: {record['title']}\n\n{record['model']}\n\n{_rows(record['rows'])}"]
    if goals:
        parts.append(f"\n{_rows(goals)}")
    if record["reading"]:
        parts.append(f"\n{record['reading']}\n")
    if record["picture"]:
        parts.append(f"\n![{record['experiment']}]({record['picture']})\n")
    parts.append(
        f"\n`{record['command']}`, {record['seconds']} s on {record['machine']}; commit {record['commit']}, "
        f"{record['date']}{stale}.\n"
    )
    return "".join(parts)


def write() -> str:
    """Writes the page and returns it."""
    records = [json.loads(path.read_text()) for path in sorted(FOLDER.glob("*.json"))]
    text = HEAD + "".join(section(record) for record in records)
    (FOLDER / "README.md").write_text(text, encoding="utf-8")
    return text
