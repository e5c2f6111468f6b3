"""A process of device_idle.py that knows no Hocket: ``device_switch_job.py NUMBER FILE KERNEL_MS``; see harness.Worker.

``{"rounds": N}``: N times it waits for its number in FILE, runs a kernel, waits for its end, and writes the other's
number there. Both ask again and again, so nobody is woken and nothing is sent: what the device idles then, it and the
driver take themselves. The answer says when it began and when its last kernel had ended (monotonic seconds).
"""

from __future__ import annotations

import json
import mmap
import os
import sys
import time

import torch

from tests.bench.workload import KHZ

number, file, kernel_ms = int(sys.argv[1]), sys.argv[2], float(sys.argv[3])


def main() -> None:
    with open(os.open(file, os.O_RDWR | os.O_CREAT, 0o600), "r+b") as opened:
        opened.truncate(1)
        turn = mmap.mmap(opened.fileno(), 1)
    cycles = int(kernel_ms * getattr(torch.cuda.get_device_properties(0), "clock_rate", KHZ))
    torch.cuda._sleep(cycles)
    torch.cuda.synchronize()
    for line in sys.stdin:
        began = time.monotonic()
        for _ in range(json.loads(line)["rounds"]):
            while turn[0] != number:
                os.sched_yield()  # a machine may have two processors only
            torch.cuda._sleep(cycles)
            torch.cuda.synchronize()
            turn[0] = 1 - number
        print(json.dumps({"began": began, "ended": time.monotonic()}), flush=True)


if __name__ == "__main__":
    main()
