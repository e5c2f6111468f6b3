"""A job of device_idle.py: ``device_idle_job.py NAME KERNEL_MS``; see harness.Worker.

``{"kernels": N}`` queues N kernels behind each other in one step: the seconds of one. ``{"steps": N}`` makes N steps of
one kernel each, of which two are queued at most: when it began and when the last had ended (monotonic seconds).
"""

from __future__ import annotations

import json
import sys
import time

import hocket
import torch

from tests.bench import harness
from tests.bench.workload import KHZ

name, kernel_ms = sys.argv[1], float(sys.argv[2])


def main() -> None:
    hocket.join(name=name)
    one = torch.zeros(1, device="cuda")  # allocated from: a step with the turn, as any training's
    cycles = int(kernel_ms * getattr(torch.cuda.get_device_properties(0), "clock_rate", KHZ))
    torch.cuda._sleep(cycles)
    torch.cuda.synchronize()
    harness.in_real_time()

    def request() -> str:
        with hocket.away():
            return sys.stdin.readline()

    while line := request():
        asked = json.loads(line)
        if "kernels" in asked:
            with hocket.step():
                torch.cuda._sleep(cycles)
                torch.cuda.synchronize()
                begin = time.monotonic()
                for _ in range(asked["kernels"]):
                    torch.cuda._sleep(cycles)
                torch.cuda.synchronize()
                print(json.dumps({"kernel_s": (time.monotonic() - begin) / asked["kernels"]}), flush=True)
            continue
        began, last = time.monotonic(), torch.cuda.Event(blocking=True)
        for _ in range(asked["steps"]):
            with hocket.step():
                last.synchronize()
                torch.cuda._sleep(cycles)
                last.record()
        torch.cuda.synchronize()
        print(json.dumps({"began": began, "ended": time.monotonic()}), flush=True)
    del one


if __name__ == "__main__":
    main()
