"""What the driver says is free, asked of the driver itself; torch is not involved.

Each line on standard input: "free", "peak" (the largest use since the last "peak") or nothing more, at which it ends.
It looks every 2 ms.
"""

from __future__ import annotations

import select
import sys

from tests.bench.monitor import memory_of_device_0
from tests.gpu.programs import said


def main() -> None:
    memory = memory_of_device_0()
    least = 1 << 62
    said.line("watching")
    while True:
        free, total = memory()
        least = min(least, free)
        if not select.select([sys.stdin], [], [], 0.002)[0]:
            continue
        asked = sys.stdin.readline().strip()
        if not asked:
            return
        free, total = memory()  # now, and not when it last looked
        least = min(least, free)
        said.line(f"{asked} {free if asked == 'free' else total - least}")
        if asked == "peak":
            least = free


if __name__ == "__main__":
    main()
