"""``scripts/experiment NAME...``: simulates, prints tables, writes docs/results/simulated."""

from __future__ import annotations

import argparse
import dataclasses
import importlib
import json
import os
import pathlib
import sys
import time

from tests.bench import harness
from tests.experiments import page, simulation

EXPERIMENTS = {
    "E1": "Salus's policies: 100 jobs on one GPU",
    "E2": "real arrivals on one node: FIFO and SRTF, sizes known, wrong and unknown",
    "E3": "jobs beside each other, with Gavel's measured interference: pairs, and what they are worth",
    "E4": "Muri's traces: SRTF against the published one; host work beside others' GPU work",
    "E5": "a guaranteed job and an opportunistic one: all pairs of Muri's models",
    "E6": "shares where step times are as noisy as measured ones",
    "E7": "more memory asked for than there is: what moving it costs, against waiting until it fits",
    "scale": "100,000 jobs on 1,000 GPUs: how long the simulator takes",
}

CODE = ["coordinator/core", "coordinator/policies", "coordinator/simulator", "tests/experiments/simulation.py"]


def _daemon(path: pathlib.Path | None) -> pathlib.Path:
    return path or pathlib.Path(harness.binary("hocketd"))


def run(name: str, context: simulation.Context, results: pathlib.Path) -> dict[str, object]:
    """Runs one experiment and writes ``<name>.json`` and ``<name>.svg``; returns the record."""
    origin = harness.origin("scripts/experiment")
    began = time.monotonic()
    result = importlib.import_module(f"tests.experiments.{name.lower()}").run(context)
    results.mkdir(parents=True, exist_ok=True)
    record = {
        "simulated": True,
        "experiment": name,
        "title": EXPERIMENTS[name],
        **origin,
        "command": f"scripts/experiment {name} --workloads FOLDER",
        "quick": context.quick,
        "seconds": round(time.monotonic() - began, 1),
        "speaks_of": [*CODE, f"tests/experiments/{name.lower()}.py"],
        "model": result.model,
        "rows": result.rows,
        "goals": [{**dataclasses.asdict(goal), "met": goal.met} for goal in result.goals],
        "reading": result.reading,
        "picture": None,
    }
    if result.draw:
        record["picture"] = f"{name.lower()}.svg"
        page.draw(result.draw, results / f"{name.lower()}.svg")
    (results / f"{name.lower()}.json").write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    return record


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/experiment", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="which (default: all)")
    parser.add_argument("--list", action="store_true", help="name them and end")
    parser.add_argument(
        "--workloads",
        type=pathlib.Path,
        default=os.environ.get("HOCKET_WORKLOADS"),
        help="folder with the traces, see tests/experiments/README.md (default: $HOCKET_WORKLOADS)",
    )
    parser.add_argument("--daemon", type=pathlib.Path, help="the hocketd that simulates (default: this tree's, built)")
    parser.add_argument("--quick", action="store_true", help="fewer seeds and jobs: does it run, not what it shows")
    parser.add_argument("--results", type=pathlib.Path, help="another folder for what is written; no page is made")
    parser.add_argument("--page", action="store_true", help="make the page anew and simulate nothing")
    options = parser.parse_args()
    if options.list:
        for name, text in EXPERIMENTS.items():
            print(f"{name:6} {text}")
        return 0
    if options.page:
        print(page.write())
        return 0
    unknown = [name for name in options.names if name not in EXPERIMENTS]
    if unknown:
        parser.error(f"no experiment is called {unknown[0]!r}; there are: {', '.join(EXPERIMENTS)}")
    if options.quick and not options.results:
        parser.error("--quick needs --results: what it writes does not belong on the page")
    names = options.names or list(EXPERIMENTS)
    if names != ["scale"] and (options.workloads is None or not options.workloads.is_dir()):
        parser.error(
            f"--workloads: {options.workloads or 'not given'}: there is no such folder. Name one with the "
            "traces that tests/experiments/README.md lists"
        )
    context = simulation.Context(options.workloads or pathlib.Path(), _daemon(options.daemon), options.quick)
    for name in names:
        print(page.section(run(name, context, options.results or page.FOLDER)), flush=True)
    if not options.results:
        page.write()
    return 0


if __name__ == "__main__":
    sys.exit(main())
