"""``scripts/bench [NAME...]``: runs benchmarks, writes raw data, and makes docs/results/README.md anew from it."""

from __future__ import annotations

import argparse
import importlib

from tests.bench import table

BENCHMARKS = {
    "step_time": "step time under Hocket alone / plain torch",
    "hand_over": "end of a turn to the next job's start / a raw two-hop message over the same sockets",
    "memory_of_four": "device memory held by four jobs / (sum of persistent + largest transient)",
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="scripts/bench", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="which (default: all)")
    parser.add_argument("--list", action="store_true", help="name them and end")
    parser.add_argument("--quick", action="store_true", help="fewer repetitions: does it run, not what it shows")
    options = parser.parse_args()
    if options.list:
        for name, text in BENCHMARKS.items():
            print(f"{name:16} {text}")
        return
    unknown = [name for name in options.names if name not in BENCHMARKS]
    if unknown:
        parser.error(f"no benchmark is called {unknown[0]!r}; there are: {', '.join(BENCHMARKS)}")
    for name in options.names or BENCHMARKS:
        print(f"== {name}", flush=True)
        importlib.import_module(f"tests.bench.{name}").run(options.quick)
    print(table.write())


if __name__ == "__main__":
    main()
