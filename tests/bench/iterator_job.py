"""What ``hocket.steps()`` costs a loop that does nothing: blocks of it, in turn with a plain ``for``.

    iterator_job.py [BLOCKS]

Prints a line of JSON: for each block the nanoseconds of processor time that a pass took, with and without.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterable

import hocket

PASSES = 200_000


def each(loop: Iterable[int]) -> float:
    begin = time.thread_time_ns()
    for _ in loop:
        pass
    return (time.thread_time_ns() - begin) / PASSES


def main() -> None:
    blocks = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    hocket.join(name="iterator")
    each(hocket.steps(range(PASSES)))
    found: dict[str, list[float]] = {"steps_ns": [], "plain_ns": []}
    for _ in range(blocks):
        found["steps_ns"].append(each(hocket.steps(range(PASSES))))
        found["plain_ns"].append(each(range(PASSES)))
    print(json.dumps(found))


if __name__ == "__main__":
    main()
