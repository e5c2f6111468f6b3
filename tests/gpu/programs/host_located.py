"""Can host memory lie behind a device address (cuMemCreate located at a NUMA node, mapped, accessible to device 0)?

Then a spilled chunk's addresses could show its host copy. Asks the driver itself; numbers are those of cuda.h. Says
what the driver promises, what came of trying, and how fast a device reads it.
"""

from __future__ import annotations

import ctypes
import time

from tests.gpu.programs import said

NUMA_VMM_SUPPORTED = 141  # CU_DEVICE_ATTRIBUTE_HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED
NUMA_ID = 134  # CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID
PINNED, DEVICE, HOST_NUMA, READ_WRITE = 1, 1, 3, 3
SIZE = 256 << 20


class Location(ctypes.Structure):
    _fields_ = (("type", ctypes.c_int), ("id", ctypes.c_int))


class Properties(ctypes.Structure):
    """CUmemAllocationProp"""

    _fields_ = (("type", ctypes.c_int), ("handles", ctypes.c_int), ("location", Location),
                ("metadata", ctypes.c_void_p), ("flags", ctypes.c_ubyte * 8))  # fmt: skip


class Access(ctypes.Structure):
    """CUmemAccessDesc"""

    _fields_ = (("location", Location), ("flags", ctypes.c_int))


class Refused(Exception):
    pass


def driver_calls():
    library = ctypes.CDLL("libcuda.so.1")

    def call(name: str, *arguments: object) -> None:
        result = getattr(library, name)(*arguments)
        if result:
            text = ctypes.c_char_p()
            library.cuGetErrorName(result, ctypes.byref(text))
            raise Refused(f"{name}: {(text.value or b'?').decode()} ({result})")

    return call


def try_it(call, node: int) -> float:
    """Maps, writes through one address, reads through another; GiB/s of the read."""
    u64 = ctypes.c_uint64
    properties = Properties(type=PINNED, location=Location(HOST_NUMA, node))
    unit = ctypes.c_size_t()
    call("cuMemGetAllocationGranularity", ctypes.byref(unit), ctypes.byref(properties), 0)
    size = -(-SIZE // unit.value) * unit.value
    handle, address, plain = u64(), u64(), u64()
    call("cuMemAddressReserve", ctypes.byref(address), ctypes.c_size_t(size), ctypes.c_size_t(0), u64(0), u64(0))
    call("cuMemCreate", ctypes.byref(handle), ctypes.c_size_t(size), ctypes.byref(properties), u64(0))
    call("cuMemMap", address, ctypes.c_size_t(size), ctypes.c_size_t(0), handle, u64(0))
    access = Access(Location(DEVICE, 0), READ_WRITE)
    call("cuMemSetAccess", address, ctypes.c_size_t(size), ctypes.byref(access), ctypes.c_size_t(1))
    call("cuMemAlloc_v2", ctypes.byref(plain), ctypes.c_size_t(size))
    call("cuMemsetD8_v2", address, ctypes.c_ubyte(0x5A), ctypes.c_size_t(size))
    call("cuCtxSynchronize")
    call("cuMemcpyDtoD_v2", plain, address, ctypes.c_size_t(size))
    call("cuCtxSynchronize")
    begin = time.perf_counter()
    call("cuMemcpyDtoD_v2", plain, address, ctypes.c_size_t(size))
    call("cuCtxSynchronize")
    rate = size / (time.perf_counter() - begin) / 2**30
    back = (ctypes.c_ubyte * 4096)()
    call("cuMemcpyDtoH_v2", back, u64(plain.value + size - 4096), ctypes.c_size_t(4096))
    if bytes(back) != b"\x5a" * 4096:
        raise Refused("the bytes are not those written")
    return rate


def main() -> None:
    call = driver_calls()
    device, context, value, node = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_int(), ctypes.c_int()
    call("cuInit", 0)
    call("cuDeviceGet", ctypes.byref(device), 0)
    call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
    call("cuCtxSetCurrent", context)
    promised, outcome, rate = False, "", None
    try:
        call("cuDeviceGetAttribute", ctypes.byref(value), NUMA_VMM_SUPPORTED, device)
        promised = bool(value.value)
        call("cuDeviceGetAttribute", ctypes.byref(node), NUMA_ID, device)
        rate = round(try_it(call, max(0, node.value)), 2)
        outcome = "mapped, same bytes"
    except Refused as refusal:
        outcome = str(refusal)
    said.data("found", promised=promised, outcome=outcome, gib_per_s=rate)


if __name__ == "__main__":
    main()
