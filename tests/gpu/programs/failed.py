"""A job in whose third step an assertion on the device fails. It catches what PyTorch says, goes on to the last of six
steps, asks the driver what it still does ("calls", with the results by the calls' names), says "caught N", and ends at
a line on standard input.

    failed.py --mib 64
"""

from __future__ import annotations

import argparse
import ctypes
import struct

import hocket

parser = argparse.ArgumentParser()
parser.add_argument("--mib", type=int, default=64)
options = parser.parse_args()
hocket.join(name="failing")
import torch  # noqa: E402

from tests.gpu.programs import said  # noqa: E402

CHUNK = 64 << 20


def calls() -> dict[str, int]:
    """Of the driver, that need no context."""
    driver = ctypes.CDLL("libcuda.so.1")
    address, handle = ctypes.c_uint64(), ctypes.c_uint64()
    pinned_on_the_device = ctypes.create_string_buffer(struct.pack("iiiiQ8x", 1, 0, 1, 0, 0), 32)
    size = ctypes.c_size_t(CHUNK)
    none = ctypes.c_uint64(0)
    results = {
        "cuMemAddressReserve": driver.cuMemAddressReserve(ctypes.byref(address), size, size, none, none),
        "cuMemCreate": driver.cuMemCreate(ctypes.byref(handle), size, pinned_on_the_device, none),
    }
    if handle.value and address.value:
        results["cuMemMap"] = driver.cuMemMap(address, size, ctypes.c_size_t(0), handle, none)
        results["cuMemUnmap"] = driver.cuMemUnmap(address, size)
    if handle.value:
        results["cuMemRelease"] = driver.cuMemRelease(handle)
    return results


kept = torch.ones(options.mib << 20, dtype=torch.uint8, device="cuda")
said.line("built")
caught = 0
for number in hocket.steps(range(6)):
    try:
        kept.add_(1)
        if number == 2:
            torch._assert_async(torch.zeros(1, device="cuda"))
        torch.cuda.synchronize()
    except RuntimeError as error:
        assert "device-side assert" in str(error), error
        caught += 1
said.data("calls", **calls())
said.line(f"caught {caught}")
said.wait_for_go()
