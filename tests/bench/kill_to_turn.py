"""From the kill of who has the turn until the next job has it, against kill to waitpid of an equal process, and from
the kernel's report of the death (kill_to_turn.cc)."""

from __future__ import annotations

import json
import os
import statistics
import subprocess

from tests.bench import harness

TEN = 10  # rounds


def run(quick: bool) -> None:
    figures, measured = [], {}
    for mib in (16, 256):
        program = [harness.binary("hocket_bench_kill_to_turn"), str(20 if quick else 100), str(mib)]
        with harness.runtime_folder() as folder:  # a coordinator of its own
            environment = {**os.environ, "HOCKET_RUNTIME_DIR": folder, "HOCKET_DAEMON": harness.binary("hocketd")}
            said = subprocess.run(
                harness.undisturbed(program), capture_output=True, text=True, check=False, env=environment
            )
            subprocess.run([harness.hocket(), "stop", "--force"], env=environment, capture_output=True, check=False)
        if said.returncode:
            raise RuntimeError(f"{' '.join(program)} ended with status {said.returncode}:\n{said.stderr[-2000:]}")
        times = measured[mib] = json.loads(said.stdout)
        ratios = [turn / wait for turn, wait in zip(times["turn"], times["waitpid"], strict=True)]
        usual = statistics.median(times["waitpid"]) / 1e6
        figures.append(
            harness.figure(
                f"kill_to_turn_{mib}_mib",
                f"holder of {mib} MiB of host memory killed: until the next job has the turn",
                ratios,
                1.2,
                f"kill to waitpid of an equal process, {usual:.2f} ms",
            )
        )
        late = [ns / 1e6 for ns in times["turn_after_report"]]
        slowest = [max(late[at : at + TEN]) for at in range(0, len(late), TEN)]
        for key, of, goal, what in (("", late, 1.0, ""), ("_slowest", slowest, 5.0, ", the slowest of ten")):
            figures.append(
                harness.figure(
                    f"death_to_turn{key}_{mib}_mib",
                    f"death of a holder of {mib} MiB of host memory: until the next job has the turn{what}",
                    of,
                    goal,
                    "the kernel's report of it, to another process",
                    unit="ms",
                )
            )
    harness.record(
        "kill_to_turn", figures, extra={"nanoseconds": measured, "speaks_of": ["csrc", *harness.COORDINATOR]}
    )
