"""When the memory of a killed process is free again on the emulated GPU, after the kernel has reported its end.

As ``python killed_memory.py hold`` it takes half a GiB and waits to be killed; as ``watch`` it answers each line on
its standard input when that memory is free. Both call the driver itself.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time

HELD = 1 << 29
DELAY_MS = 50  # of a second series, in which the device takes its time to let go


def _driver() -> ctypes.CDLL:
    driver, context = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p()
    assert driver.cuInit(0) == 0
    assert driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
    assert driver.cuCtxSetCurrent(context) == 0
    return driver


def hold() -> None:
    address = ctypes.c_uint64()
    assert _driver().cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(HELD)) == 0
    print("held", flush=True)
    signal.pause()


def watch() -> None:
    driver, free, total = _driver(), ctypes.c_size_t(), ctypes.c_size_t()
    print("ready", flush=True)
    for _ in sys.stdin:
        while driver.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total)) or free.value < total.value:
            pass
        print("free", flush=True)


def _series(delay_ms: int, count: int) -> list[float]:
    """Milliseconds from the kernel's report to the watcher's answer."""
    from tests.bench import harness

    def start(mode: str) -> subprocess.Popen[str]:
        program = ["env", f"HOCKET_EMULATOR_TEARDOWN_MS={delay_ms}", sys.executable, __file__, mode]
        command = harness.emulate(f"bench-killed-{delay_ms}", "1GiB", program)
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert process.stdout and process.stdout.readline()
        return process

    watcher, took = start("watch"), []
    assert watcher.stdin and watcher.stdout
    for _ in range(count):
        holder = start("hold")
        os.kill(holder.pid, signal.SIGKILL)
        holder.wait()
        reported = time.perf_counter()
        watcher.stdin.write("\n")
        watcher.stdin.flush()
        watcher.stdout.readline()
        took.append(1e3 * (time.perf_counter() - reported))
    watcher.stdin.close()
    watcher.wait()
    return took


def run(quick: bool) -> None:
    from tests.bench import harness

    if not harness.PLACE.emulated:
        print("killed_memory measures the emulated GPU; say --emulate")
        return
    figures = [
        harness.figure(
            f"killed_memory_{delay}",
            f"memory of a killed process is back, teardown delay {delay} ms",
            _series(delay, 5 if quick else 20),
            100 + delay,
            "the kernel's report of its end",
            unit="ms",
        )
        for delay in (0, DELAY_MS)
    ]
    harness.record("killed_memory", figures, extra={"speaks_of": ["csrc/emulator"]})


if __name__ == "__main__":
    {"hold": hold, "watch": watch}[sys.argv[1]]()
