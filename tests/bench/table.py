"""Makes docs/results/README.md from the raw data beside it. Nothing in that page is typed by hand."""

from __future__ import annotations

import json
import subprocess

from tests.bench.harness import RESULTS, ROOT

HEAD = """# Results

Made by `scripts/bench` from the JSON files beside this page. A figure is the median of ratios measured in one run,
interleaved with its baseline, and its 95 % bootstrap interval. *emulated*: measured on the emulated GPU; such a
figure says nothing about a real one. *stale*: the code the figure speaks of has changed since.

| figure | goal | measured | met | baseline | device | torch | commit, date |
|---|---|---|---|---|---|---|---|
"""


def _stale(commit: str) -> bool:
    """Whether code changed after `commit`."""
    base = commit.removesuffix("-dirty")
    changed = subprocess.run(
        ["git", "-C", str(ROOT), "diff", "--quiet", base, "HEAD", "--", "allocator", "csrc", "coordinator", "python"],
        capture_output=True,
    )
    return changed.returncode != 0


def _row(figure: dict, data: dict) -> str:
    value = f"{figure['value']:.4f} [{figure['low']:.4f} .. {figure['high']:.4f}], n = {len(figure['samples'])}"
    met = "yes" if figure["met"] else "**no**"
    mark = ", *stale*" if _stale(data["commit"]) else ""
    device = f"*{data['device']}*" if data["device"] == "emulated" else data["device"]
    return (
        f"| {figure['text']} | <= {figure['goal']:g} | {value} | {met} | {figure['baseline']} | {device} | "
        f"{data['torch']} | {data['commit']}, {data['date']}{mark} |\n"
    )


def write() -> str:
    """Writes the page and returns it."""
    page, machines = HEAD, {}
    for path in sorted(RESULTS.glob("*.json")):
        data = json.loads(path.read_text())
        if "figures" not in data:
            continue
        for figure in data["figures"]:
            page += _row(figure, data)
        machines[data["machine"]] = [*machines.get(data["machine"], []), data["benchmark"]]
    page += "\n" + "".join(f"{', '.join(names)}: on {machine}.\n" for machine, names in machines.items())
    (RESULTS / "README.md").write_text(page)
    return page
