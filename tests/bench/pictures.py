"""Pictures for the page of results, where a curve says more than its rows: drawn from the same records."""

from __future__ import annotations

import pathlib
import re
from collections.abc import Iterable
from typing import Any

# Figures of one kind at several sizes: what their names begin with, and the line's name.
RATES = {
    r"spill_rate_([\d.]+)_gib": "spilled",
    r"restore_rate_([\d.]+)_gib": "restored",
    r"exchange_([\d.]+)": "both at once, two jobs",
}


def rates(records: Iterable[dict[str, Any]]) -> dict[str, list[tuple[float, dict[str, Any]]]]:
    """For each line of the picture its figures, by GiB. A GPU's lines say which it is."""
    lines: dict[str, list[tuple[float, dict[str, Any]]]] = {}
    for data in records:
        for figure in data.get("figures", ()):
            for pattern, text in RATES.items():
                if found := re.fullmatch(pattern, figure["name"]):
                    lines.setdefault(f"{text} ({data['device']})", []).append((float(found[1]), figure))
    return {line: sorted(points, key=lambda point: point[0]) for line, points in lines.items() if len(points) > 1}


def draw_rates(records: Iterable[dict[str, Any]], folder: pathlib.Path) -> str:
    """Draws ``rates.svg`` and returns the page's words for it; "" where there is nothing to draw."""
    lines = rates(records)
    if not lines:
        return ""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    # The same bytes for the same records.
    with matplotlib.rc_context({"svg.hashsalt": "rates", "svg.fonttype": "none"}):
        picture, axes = pyplot.subplots(figsize=(7, 3.6))
        for line, points in lines.items():
            low = [figure["value"] - figure["low"] for _, figure in points]
            high = [figure["high"] - figure["value"] for _, figure in points]
            values = [figure["value"] for _, figure in points]
            axes.errorbar([size for size, _ in points], values, yerr=(low, high), marker="o", capsize=3, label=line)
        axes.axhline(0.9, color="grey", linestyle=":", label="goal")
        axes.set(xscale="log", xlabel="GiB", ylabel="of plain pinned copies' rate", ylim=(0, 1.1))
        axes.set_xticks(
            *[[f(size) for size in sorted({s for p in lines.values() for s, _ in p})] for f in (float, str)]
        )
        axes.legend(loc="lower right", fontsize="small")
        picture.tight_layout()
        picture.savefig(folder / "rates.svg", metadata={"Date": None})
        pyplot.close(picture)
    return "\n![How fast bytes move to the host and back, by how many they are](rates.svg)\n"
