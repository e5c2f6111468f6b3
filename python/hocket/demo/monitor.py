"""Prints capacity and free bytes of device 0, then the largest use since, when its standard input ends.

Asks the driver itself every few milliseconds; neither torch nor hocket is imported.
"""

from __future__ import annotations

import ctypes
import select
import sys

PERIOD = 0.004


def main() -> None:
    driver = ctypes.CDLL("libcuda.so.1")
    device, context = ctypes.c_int(), ctypes.c_void_p()
    free, total = ctypes.c_size_t(), ctypes.c_size_t()

    def check(code: int) -> None:
        if code != 0:
            sys.exit(f"the driver answers {code}")

    check(driver.cuInit(0))
    check(driver.cuDeviceGet(ctypes.byref(device), 0))
    check(driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), device))
    check(driver.cuCtxSetCurrent(context))

    def used() -> int:
        check(driver.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total)))
        return total.value - free.value

    before = largest = used()
    print(total.value, before, flush=True)
    while not select.select([sys.stdin], [], [], PERIOD)[0]:
        largest = max(largest, used())
    print(largest - before, flush=True)


if __name__ == "__main__":
    main()
