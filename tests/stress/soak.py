"""Eight jobs, random kills and joins, for long: does the daemon, or a job, grow?

    python -m tests.stress.soak --build build/dev --minutes 60 --json docs/results/soak.json

A round: some steps of the jobs, then one of seven is killed (SIGKILL) and another one joins; the eighth, and the
daemon, live from the beginning to the end and are looked at once a second: resident memory, descriptors, threads. What
the daemon keeps on purpose, and how much at most, is said in its headers: 100,000 turns and 10,000 jobs that have
ended. It has settled when both are full; a straight line through what it held from then on is its growth. Where a run
is too short for that, its growth is from half of its time on, and what it kept meanwhile is subtracted at ``KEPT_EACH``
bytes.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import random
import statistics
import sys
import time
from typing import Any

from tests.stress.cpp_jobs import Node, Wrong, any_of

JOBS = 8
MOST = {"turns": 100_000, "ended": 10_000}
KEPT_EACH = {"turns": 512, "ended": 8192}  # bytes, at most
SLACK = 1 << 20  # bytes: what an allocator of memory keeps for itself


def look_at(pid: int) -> dict[str, int]:
    process = pathlib.Path(f"/proc/{pid}")
    fields = dict(line.split(":", 1) for line in (process / "status").read_text().splitlines())
    return {
        "rss": int(fields["VmRSS"].split()[0]) * 1024,
        "descriptors": len(list((process / "fd").iterdir())),
        "threads": int(fields["Threads"]),
    }


def slope(points: list[tuple[float, float]]) -> float:
    """Of a straight line, by least squares."""
    if len(points) < 2:
        return 0.0
    x, y = zip(*points, strict=True)
    return statistics.linear_regression(x, y).slope if len(set(x)) > 1 else 0.0


def _kept(sample: dict[str, Any]) -> int:
    """What the daemon holds on purpose, at most, in bytes."""
    return sum(min(sample[what], most) * KEPT_EACH[what] for what, most in MOST.items())


def verdict(samples: list[dict[str, Any]]) -> dict[str, Any]:
    """What grew: {settled_s, growth per hour of each, grew: [...]}; nothing if ``grew`` is empty."""
    full = [s for s in samples if all(s[what] >= most for what, most in MOST.items())]
    settled = full if len(full) >= 0.2 * len(samples) else samples[len(samples) // 2 :]
    growth: dict[str, dict[str, float]] = {"daemon": {}, "job": {}}
    grew = []
    for who in growth:
        for what in ("rss", "descriptors", "threads"):
            kept = _kept if (who, what) == ("daemon", "rss") else lambda _: 0
            points = [(s["at"], s[who][what] - kept(s)) for s in settled]
            growth[who][what] = round(slope(points) * 3600, 3)
            gained = slope(points) * (points[-1][0] - points[0][0])
            # What goes up and down by itself is no growth; of a leak alone the deviation is 0.29 of what it has gained.
            noise = 1.5 * statistics.pstdev(y for _, y in points)
            if gained > max(noise, SLACK if what == "rss" else 0.5):
                grew.append(f"{what} of the {who}: {gained:.1f} in {points[-1][0] - points[0][0]:.0f} s")
    return {"settled_s": settled[0]["at"], "growth_per_hour": growth, "grew": grew}


def soak(node: Node, options: argparse.Namespace) -> list[dict[str, Any]]:
    draw = random.Random(options.seed)
    samples: list[dict[str, Any]] = []
    keeper = node.start("keeper", 1 << 30)
    others = [node.start(f"job-{i}", 1 << 30) for i in range(JOBS - 1)]
    node.progress(JOBS * 4)
    daemon = node.daemon()
    began = time.monotonic()
    rounds = 0
    while rounds < options.rounds if options.rounds else time.monotonic() - began < options.minutes * 60:
        rounds += 1
        node.progress(draw.randrange(1, options.steps))
        victim = any_of(draw, others)
        others.remove(victim)
        victim.kill()
        others.append(node.start(f"job-{JOBS + rounds}", 1 << 30))
        at = time.monotonic() - began
        if options.rounds or not samples or at - samples[-1]["at"] >= 1:
            if node.daemon() != daemon:
                raise Wrong("lost: the daemon is another one")
            samples.append(
                {
                    "at": round(at, 2), "kills": rounds, "ended": rounds, "turns": node.ask("turns", since=0)["end"],
                    "daemon": look_at(daemon), "job": look_at(keeper.pid), "steps": keeper.steps,
                }
            )  # fmt: skip
            if options.samples:
                options.samples.write_text("\n".join(map(json.dumps, samples)) + "\n")
    return samples


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, required=True, help="CMake's build folder")
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--rounds", type=int, help="instead of minutes")
    parser.add_argument("--steps", type=int, default=120, help="at most so many between two kills")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--memory", default="5MiB", help="of the emulated device")
    parser.add_argument("--samples", type=pathlib.Path, help="also write them there while it runs")
    parser.add_argument("--json", type=pathlib.Path, help="also write the outcome there, with the commit")
    options = parser.parse_args()
    with Node(options.build.resolve(), options.memory, "soak") as node:
        samples = soak(node, options)
        moved = node.moved
    outcome = {**verdict(samples), "kills": samples[-1]["kills"], "turns": samples[-1]["turns"], "moved": moved}
    print(json.dumps({**outcome, "first": samples[0], "last": samples[-1]}), flush=True)
    if options.json:
        from tests.bench import harness

        text = f"8 jobs, random kills and joins for {samples[-1]['at'] / 60:.0f} minutes: memory, descriptors and threads of the daemon and of a job do not grow"  # noqa: E501
        seen = f"{outcome['kills']:,} kills, {outcome['turns']:,} turns; daemon {samples[-1]['daemon']['rss'] >> 20} MiB at the end"  # noqa: E501
        code = ["allocator", "csrc", *harness.COORDINATOR]
        every = max(1, len(samples) // 200)
        record = harness.checks_record(
            "soak", "python -m tests.stress.soak", [(text, not outcome["grew"], seen)], code, seed=options.seed,
            **outcome, samples=samples[::every],
        )  # fmt: skip
        options.json.write_text(json.dumps(record, indent=1) + "\n")
    sys.exit(f"it grew: {', '.join(outcome['grew'])}" if outcome["grew"] else 0)


if __name__ == "__main__":
    main()
