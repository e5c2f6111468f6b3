"""What the driver says is free, asked of the driver itself; torch is not involved.

Each line on standard input: "free", "peak" (the largest use since the last "peak") or nothing more, at which it ends.
It looks every 2 ms.
"""

from __future__ import annotations

import ctypes
import select
import sys

from tests.gpu.programs import said


def main() -> None:
    driver = ctypes.CDLL("libcuda.so.1")
    device, context = ctypes.c_int(), ctypes.c_void_p()
    free, total = ctypes.c_size_t(), ctypes.c_size_t()
    assert driver.cuInit(0) == 0 and driver.cuDeviceGet(ctypes.byref(device), 0) == 0
    assert driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), device) == 0
    assert driver.cuCtxSetCurrent(context) == 0
    least = 1 << 62
    said.line("watching")
    while True:
        assert driver.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total)) == 0
        least = min(least, free.value)
        if not select.select([sys.stdin], [], [], 0.002)[0]:
            continue
        asked = sys.stdin.readline().strip()
        if not asked:
            return
        said.line(f"{asked} {free.value if asked == 'free' else total.value - least}")
        if asked == "peak":
            least = free.value


if __name__ == "__main__":
    main()
