"""A context of device 0 and ``--mib`` of memory, through the driver alone.

``context {"ms": ...}`` says how long the context's making took; it takes the memory, and then ends, when a line comes.
"""

from __future__ import annotations

import argparse
import ctypes
import time

from tests.gpu.programs import said

parser = argparse.ArgumentParser()
parser.add_argument("--mib", type=int, required=True)
options = parser.parse_args()


def main() -> None:
    driver, context, address = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p(), ctypes.c_uint64()
    assert driver.cuInit(0) == 0
    begin = time.monotonic()
    assert driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
    assert driver.cuCtxSetCurrent(context) == 0
    took = time.monotonic() - begin
    said.data("context", ms=1e3 * took)
    said.wait_for_go()
    assert driver.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(options.mib << 20)) == 0
    said.line("holds")
    said.wait_for_go()


if __name__ == "__main__":
    main()
