"""Prints the largest number of bytes in use on device 0: since its start, or since it last answered, for each line
on its standard input; then, at its end, once more.

Asks the driver itself (cuMemGetInfo) every 2 ms, through libcuda.so.1: torch is not involved.
"""

from __future__ import annotations

import ctypes
import select
import sys
from collections.abc import Callable


def device_0() -> tuple[ctypes.CDLL, ctypes.c_int]:
    """The driver, and its first device; without a context on it."""
    driver, device = ctypes.CDLL("libcuda.so.1"), ctypes.c_int()
    assert driver.cuInit(0) == 0 and driver.cuDeviceGet(ctypes.byref(device), 0) == 0
    return driver, device


def memory_of_device_0() -> Callable[[], tuple[int, int]]:
    """A function that gives the driver's word for it: bytes free, bytes in all."""
    driver, device = device_0()
    context = ctypes.c_void_p()
    free, total = ctypes.c_size_t(), ctypes.c_size_t()
    assert driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), device) == 0
    assert driver.cuCtxSetCurrent(context) == 0

    def memory() -> tuple[int, int]:
        assert driver.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total)) == 0
        return free.value, total.value

    return memory


def main() -> None:
    memory = memory_of_device_0()
    print("watching", flush=True)
    line = "begin"
    while line:
        largest = 0
        while not select.select([sys.stdin], [], [], 0.002)[0]:
            free, total = memory()
            largest = max(largest, total - free)
        line = sys.stdin.readline()
        print(largest, flush=True)


if __name__ == "__main__":
    main()
