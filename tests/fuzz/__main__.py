"""Builds the fuzzers and runs them side by side; ``scripts/fuzz`` installs what that needs.

    scripts/fuzz --seconds 60
    scripts/fuzz --executions 100000000 --processes 1 --json docs/results/fuzz.json

Each target begins with the inputs of its own in ``corpus``, and what it has found before (build/fuzz/found).
``--executions`` and ``--seconds`` are for all targets together: a target gets what its row in ``TARGETS`` says. Ends
with status 1 if one of them has failed.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import dataclasses
import json
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = ROOT / "build" / "fuzz"
CORPUS = ROOT / "tests" / "fuzz" / "corpus"


@dataclasses.dataclass(frozen=True)
class Target:
    """What is fuzzed, and which part of all seconds and of all executions it gets: one takes longer than another."""

    name: str
    what: str
    seconds: float
    executions: float


TARGETS = (
    Target("codec", "any bytes as a message, both ways", 0.05, 0.94),
    Target("core", "jobs that say anything to the coordinator's core", 0.25, 0.002),
    Target("server", "connections, commands and state files of the daemon's server", 0.15, 0.0003),
    Target("agent", "a coordinator that says anything to a job", 0.1, 0.0003),
    Target("state", "state files", 0.1, 0.003),
    Target("needs", "what programs needed in earlier runs, as a file says", 0.05, 0.003),
    Target("own_policy", "what a policy of the user's own answers", 0.05, 0.0002),
    Target("workload", "workloads and traces, and their simulation", 0.1, 0.005),
    Target("recording", "files of recorded turns", 0.1, 0.003),
    Target("config", "config files, and whether the coordinator takes what passes", 0.05, 0.0003),
    Target("costs", "tables of costs of the emulated GPU", 0.05, 0.047),
)
# What a record speaks of.
CODE = [
    "csrc/base", "csrc/wire", "csrc/client", "csrc/emulator/timing/cost.cc", "coordinator", "python/hocket/_config.py",
    "tests/fuzz",
]  # fmt: skip
LONGEST = 120  # seconds for one input, after which it hangs
# As a user's own answers are few and large, and a file has no end that is known.
OPTIONS = ["-max_len=4096", f"-timeout={LONGEST}", "-rss_limit_mb=4096", "-print_final_stats=1", "-verbosity=0"]


def build(log: pathlib.Path) -> None:
    options = ["-DHOCKET_FUZZ=ON", "-DHOCKET_SANITIZE=address,undefined", "-DHOCKET_PYTHON="]
    compilers = ["-DCMAKE_CXX_COMPILER=clang++", "-DCMAKE_C_COMPILER=clang"]
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("w") as out:
        for command in (
            ["cmake", "-S", str(ROOT), "-B", str(BUILD), "-GNinja", *compilers, *options],
            ["cmake", "--build", str(BUILD), "--target", "fuzzers"],
        ):
            if subprocess.run(command, stdout=out, stderr=subprocess.STDOUT, check=False).returncode:
                sys.exit(f"fuzz: {' '.join(command)} failed; all of it is in {log}\n{log.read_text()[-3000:]}")


def run(target: Target, limits: list[str], seed: int) -> dict[str, object]:
    """Runs one fuzzer to its end: {target, executions, failed}."""
    program = BUILD / "tests" / "fuzz" / f"{target.name}_fuzz"
    found, failed = BUILD / "found" / target.name, BUILD / "failed" / target.name
    found.mkdir(parents=True, exist_ok=True)
    failed.mkdir(parents=True, exist_ok=True)
    command = [str(program), *OPTIONS, *limits, f"-seed={seed}", f"-artifact_prefix={failed}/"]
    environment = {**os.environ, "UBSAN_OPTIONS": "print_stacktrace=1"}
    with subprocess.Popen(
        [*command, str(found), str(CORPUS / target.name)],
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, errors="replace", env=environment,
    ) as process:  # fmt: skip
        assert process.stderr
        said = process.stderr.read()
    executed = re.search(r"stat::number_of_executed_units: (\d+)", said)
    outcome = {"target": target.name, "what": target.what, "executions": int(executed[1]) if executed else 0}
    if process.returncode == 0:
        return {**outcome, "failed": None}
    kept = re.search(r"Test unit written to (\S+)", said)
    show = f"{program.relative_to(ROOT)} {kept[1] if kept else ''}"
    return {**outcome, "failed": {"show": show, "said": said[-6000:]}}


def limits_of(target: Target, targets: list[Target], options: argparse.Namespace) -> list[str]:
    if options.executions:
        share = target.executions / sum(other.executions for other in targets)
        return [f"-runs={max(1, round(options.executions * share))}"]
    share = target.seconds / sum(other.seconds for other in targets)
    return [f"-max_total_time={max(1, round(options.seconds * options.processes * share))}"]


def record(options: argparse.Namespace, outcomes: list[dict[str, object]]) -> None:
    from tests.bench import harness

    executions = sum(outcome["executions"] for outcome in outcomes)
    failed = [outcome["target"] for outcome in outcomes if outcome["failed"]]
    seen = f"{executions:,} executions in all, {len(failed)} failures"
    text = f"{len(outcomes)} fuzzers, coverage-guided, under the address and undefined-behaviour sanitizers: none fails"
    data = harness.checks_record(
        "fuzz", "scripts/fuzz", [(text, not failed, seen)], CODE, seed=options.seed, executions=executions,
        outcomes=outcomes,
    )  # fmt: skip
    options.json.write_text(json.dumps(data, indent=1) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="scripts/fuzz", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = [target.name for target in TARGETS]
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=f"default: all of {', '.join(names)}")
    much = parser.add_mutually_exclusive_group()
    much.add_argument("--seconds", type=float, default=60, help="of all targets together, on all processes")
    much.add_argument("--executions", type=int, help="of all targets together")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1, help="fuzzers that run at once")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=pathlib.Path, help="also write the outcome there, with the commit")
    parser.add_argument("--list", action="store_true", help="name the targets and end")
    options = parser.parse_args()
    if options.list:
        print("\n".join(f"{target.name:12} {target.what}" for target in TARGETS))
        return
    if unknown := set(options.targets) - set(names):
        parser.error(f"no target is called {', '.join(sorted(unknown))}; there are {', '.join(names)}")
    targets = [target for target in TARGETS if not options.targets or target.name in options.targets]
    build(BUILD.with_suffix(".log"))
    with concurrent.futures.ThreadPoolExecutor(options.processes) as pool:
        outcomes = list(pool.map(lambda t: run(t, limits_of(t, targets, options), options.seed), targets))
    for outcome in outcomes:
        print(
            f"{outcome['target']:12} {outcome['executions']:>12,} executions{', FAILED' if outcome['failed'] else ''}"
        )
        if outcome["failed"]:
            print(f"{outcome['failed']['said']}\nfuzz: to see it again: {outcome['failed']['show']}")
    if options.json:
        record(options, outcomes)
    failed = [outcome["target"] for outcome in outcomes if outcome["failed"]]
    total = sum(outcome["executions"] for outcome in outcomes)
    print(f"fuzz: {total:,} executions of {len(outcomes)} targets; failed: {', '.join(failed) or 'none'}")
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
