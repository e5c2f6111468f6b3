"""``scripts/bench [NAME...]``: runs benchmarks, writes raw data, and makes docs/results/README.md anew from it."""

from __future__ import annotations

import argparse
import importlib
import os
import pathlib
import sys
import traceback

from tests.bench import harness, table
from tests.bench.adopt import NotAdopted, adopt

BENCHMARKS = {
    "step_time": "step time under Hocket alone / plain torch",
    "spill_rate": "rate of spills and restores / plain pinned copies",
    "hand_over": "end of a turn to the next job's start / a raw two-hop message over the same sockets",
    "device_idle": "how long the device idles at a hand-over / kernels queued behind each other",
    "makespan": "two jobs of 50 % duty together / one after the other",
    "share": "share of the device that two jobs get / that they asked for",
    "evicted": "end of the other's turn to an evicted job's first kernel / a plain copy of its bytes",
    "exchange": "hand-over of two jobs that do not fit together / plain copies of their bytes both ways at once",
    "link": "step of a job that copies its batches, beside bytes that move for others / alone",
    "losses": "jobs whose losses are those of plain torch, to the last bit",
    "device_time": "the emulated GPU's timing mode: step time, CPU time, shares / what its model says",
    "kill_to_turn": "from the kill of the holder to the next job's turn / kill to waitpid of an equal process",
    "killed_memory": "when the emulated GPU has a killed process's memory back / the kernel's report",
    "allocation": "malloc + free and reserved memory, recorded histories / PyTorch's native allocator",
    "survivors": "chunks taken out of the arena, and private memory / bytes of what outlives its step",
    "production": "what an opportunistic job costs a production job, and gets / alone, and an oracle",
    "inference": "request latency beside training / its bound; what the training gets / what requests leave",
    "prediction": "makespan of jobs together, simulated / run",
    "memory_of_jobs": "device memory held by two, four and eight jobs / (sum of persistent + largest transient)",
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/bench", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="which (default: all)")
    parser.add_argument("--list", action="store_true", help="name them and end")
    parser.add_argument("--emulate", action="store_true", help="on an emulated GPU (default: this machine's)")
    parser.add_argument("--quick", action="store_true", help="fewer repetitions: does it run, not what it shows")
    parser.add_argument("--brief", action="store_true", help="five repetitions in short blocks: wider bounds")
    parser.add_argument("--results", type=pathlib.Path, help="another folder for the raw data; no page is made")
    parser.add_argument("--page", action="store_true", help="make the page anew and measure nothing")
    parser.add_argument("--adopt", type=pathlib.Path, metavar="FOLDER", help="take over what scripts/gpu-check found")
    parser.add_argument(
        "--workloads",
        type=pathlib.Path,
        default=os.environ.get("HOCKET_WORKLOADS"),
        help="folder with the traces that `inference` needs, see tests/bench/README.md (default: $HOCKET_WORKLOADS)",
    )
    options = parser.parse_args()
    if options.list:
        for name, text in BENCHMARKS.items():
            print(f"{name:16} {text}")
        return 0
    unknown = [name for name in options.names if name not in BENCHMARKS]
    if unknown:
        parser.error(f"no benchmark is called {unknown[0]!r}; there are: {', '.join(BENCHMARKS)}")
    if options.adopt:
        try:
            written = adopt(options.adopt, BENCHMARKS)
        except NotAdopted as why:
            print(f"bench: {options.adopt} is not taken over, nothing has changed: {why}.", file=sys.stderr)
            return 1
        print("\n".join(map(str, written)))
    if options.adopt or options.page:
        print(table.write())
        return 0
    if not options.emulate and not _gpu():
        parser.error("there is no NVIDIA GPU here; say --emulate to measure on an emulated one")
    os.environ["PYTHONFAULTHANDLER"] = "1"  # a program that aborts says where
    if options.quick and not options.results:
        parser.error(
            "--quick needs --results FOLDER: it shows that a benchmark runs, and what it measures is no record"
        )
    harness.use(options.emulate, options.results or harness.RESULTS, options.workloads, options.quick, options.brief)
    failed = []
    for name in options.names or BENCHMARKS:
        print(f"== {name}", flush=True)
        try:
            importlib.import_module(f"tests.bench.{name}").run(options.quick)
        except harness.NotRun as why:
            print(f"bench: {name}: not run: {why}", flush=True)
        except Exception:  # one that fails does not stop the others
            traceback.print_exc()
            failed.append(name)
    if not options.results:
        print(table.write())
    if failed:
        print(f"bench: failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


def _gpu() -> bool:
    import torch

    return torch.cuda.is_available()


if __name__ == "__main__":
    sys.exit(main())
