"""Prints the largest number of bytes in use on device 0: since its start, or since it last answered, for each line
on its standard input; then, at its end, once more.

Asks the driver itself (cuMemGetInfo) every 2 ms, through libcuda.so.1: torch is not involved.
"""

from __future__ import annotations

import ctypes
import select
import sys


def main() -> None:
    driver = ctypes.CDLL("libcuda.so.1")
    device, context = ctypes.c_int(), ctypes.c_void_p()
    free, total = ctypes.c_size_t(), ctypes.c_size_t()
    assert driver.cuInit(0) == 0 and driver.cuDeviceGet(ctypes.byref(device), 0) == 0
    assert driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), device) == 0
    assert driver.cuCtxSetCurrent(context) == 0
    print("watching", flush=True)
    line = "begin"
    while line:
        largest = 0
        while not select.select([sys.stdin], [], [], 0.002)[0]:
            assert driver.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total)) == 0
            largest = max(largest, total.value - free.value)
        line = sys.stdin.readline()
        print(largest, flush=True)


if __name__ == "__main__":
    main()
