"""Measures what the emulated GPU's timing model takes as data (csrc/emulator/timing/cost.h): ``rates.py small|full``.

Each is the best of a few: a rate is what the device can do, and whatever disturbs it only makes it slower.

Says ``rates {...}`` and ``calls {...}``: the driver's memory calls, microseconds for one piece of memory and for each
of its MiB, asked of the driver itself. What it refuses (host memory, perhaps) or what ended too soon (a copy that the
calls were to be beside) is left out.
"""

from __future__ import annotations

import ctypes
import mmap
import sys
import time
from collections.abc import Callable

import torch

from tests.gpu.programs import operators, said
from tests.gpu.programs.host_located import (
    DEVICE,
    HOST_NUMA,
    NUMA_ID,
    PINNED,
    READ_WRITE,
    Access,
    Location,
    Properties,
    Refused,
    driver_calls,
)

FULL = sys.argv[1] == "full"
BYTES = 1 << (30 if FULL else 22)
WIDTH = 8192 if FULL else 128
SMALL, LARGE = (4, 64) if FULL else (2, 8)  # MiB of a piece of memory
PIECES = {SMALL: 8, LARGE: 4}
ROUNDS = 4
MIB = 1 << 20


def best(work: Callable[[], object], times: int = 1) -> float:
    """Microseconds of one of ``times`` runs queued together, the best of five."""
    work()
    took = []
    for _ in range(5):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        for _ in range(times):
            work()
        torch.cuda.synchronize()
        took.append((time.perf_counter() - begin) * 1e6 / times)
    return min(took)


def product(dtype: torch.dtype) -> float:
    """Floating-point operations per microsecond of a large square product."""
    a, b = (torch.randn(WIDTH, WIDTH, device="cuda").to(dtype) for _ in range(2))
    return 2 * WIDTH**3 / best(lambda: torch.mm(a, b), 3)


u64, size_t = ctypes.c_uint64, ctypes.c_size_t


class Calls:
    """The driver's memory calls on a few pieces of one size, behind the same addresses again and again."""

    def __init__(self, call: Callable[..., None], location: Location, mib: int) -> None:
        self._call, self._location, self._size, self._pieces = call, location, mib * MIB, PIECES[mib]
        self._on_host = location.type == HOST_NUMA
        self._first, self._second = self._reserve(), self._reserve()

    def _reserve(self) -> int:
        address = u64()
        whole = size_t(self._pieces * self._size)
        self._call("cuMemAddressReserve", ctypes.byref(address), whole, size_t(self._size), u64(0), u64(0))
        return address.value

    def _each(self, do: Callable[[int], object]) -> float:
        """Microseconds of one."""
        begin = time.perf_counter()
        for i in range(self._pieces):
            do(i)
        return (time.perf_counter() - begin) * 1e6 / self._pieces

    def once(self, before_unmap: Callable[[], object] = lambda: None) -> dict[str, float]:
        """Makes the memory, maps it (the host's once for the host, and once for the device) and gives it back."""
        call, size = self._call, self._size
        handles = [u64() for _ in range(self._pieces)]
        properties = Properties(type=PINNED, location=self._location)
        of_device = Access(Location(DEVICE, 0), READ_WRITE)
        of_host = Access(self._location, READ_WRITE)

        def create(i: int) -> None:
            call("cuMemCreate", ctypes.byref(handles[i]), size_t(size), ctypes.byref(properties), u64(0))

        def put(at: int) -> Callable[[int], None]:
            return lambda i: call("cuMemMap", u64(at + i * size), size_t(size), size_t(0), handles[i], u64(0))

        def let(at: int, access: Access) -> Callable[[int], None]:
            return lambda i: call("cuMemSetAccess", u64(at + i * size), size_t(size), ctypes.byref(access), size_t(1))

        def take(at: int) -> Callable[[int], None]:
            return lambda i: call("cuMemUnmap", u64(at + i * size), size_t(size))

        took = {"create": self._each(create)}
        if self._on_host:
            self._each(put(self._second))
            took["own_access"] = self._each(let(self._second, of_host))
        took["map"] = self._each(put(self._first))
        took["access"] = self._each(let(self._first, of_device))
        before_unmap()
        took["unmap"] = self._each(take(self._first))
        if self._on_host:
            self._each(take(self._second))
        took["release"] = self._each(lambda i: call("cuMemRelease", handles[i]))
        return took

    def best(self) -> dict[str, float]:
        return least([self.once() for _ in range(ROUNDS)])


def least(rounds: list[dict[str, float]]) -> dict[str, float]:
    return {name: min(each[name] for each in rounds) for name in rounds[0]}


def line(small: float, large: float) -> tuple[float, float]:
    """What a piece costs and what each of its MiB does, of the two sizes."""
    per_mib = max(0.0, (large - small) / (LARGE - SMALL))
    return max(0.0, small - per_mib * SMALL), per_mib


def lines(call: Callable[..., None], location: Location, prefix: str) -> dict[str, float]:
    small, large = (Calls(call, location, mib).best() for mib in (SMALL, LARGE))
    found = {}
    for name in small:
        if prefix and name == "map":  # as the device's
            continue
        found[f"{prefix}{name}_us"], found[f"{prefix}{name}_us_per_mib"] = line(small[name], large[name])
    return found


def pinning(call: Callable[..., None]) -> dict[str, float]:
    """Host memory that exists already, and the driver's own, by the MiB."""
    size = LARGE * MIB
    took: dict[str, list[float]] = {"pin": [], "pin_touched": [], "host_alloc": []}

    def microseconds(work: Callable[[], object]) -> float:
        begin = time.perf_counter()
        work()
        return (time.perf_counter() - begin) * 1e6 / LARGE

    for touched in (False, True) * 2:
        with mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory:
            memory.madvise(mmap.MADV_HUGEPAGE)
            view = ctypes.c_char.from_buffer(memory)
            address = ctypes.c_void_p(ctypes.addressof(view))
            if touched:
                ctypes.memset(address, 1, size)
            name = "pin_touched" if touched else "pin"
            took[name].append(microseconds(lambda at=address: call("cuMemHostRegister_v2", at, size_t(size), 1)))
            call("cuMemHostUnregister", address)
            del view
        own = ctypes.c_void_p()
        took["host_alloc"].append(
            microseconds(lambda to=own: call("cuMemHostAlloc", ctypes.byref(to), size_t(size), 1))
        )
        call("cuMemFreeHost", own)
    return {f"{name}_us_per_mib": min(each) for name, each in took.items()}


def beside_copies(call: Callable[..., None], host: torch.Tensor, device: torch.Tensor) -> dict[str, float]:
    """The calls on device memory while a copy to the host runs."""
    calls = Calls(call, Location(DEVICE, 0), SMALL)
    idle = calls.best()
    copied = torch.cuda.Event()
    rounds = []
    for _ in range(ROUNDS):
        torch.cuda.synchronize()
        host.copy_(device, non_blocking=True)
        copied.record()
        took = calls.once()
        if not copied.query():  # it ran all the time
            rounds.append(took)
    torch.cuda.synchronize()
    if not rounds:
        return {}
    busy = least(rounds)
    others = [name for name in idle if name != "access"]
    return {
        "access_behind_copy_us": max(0.0, busy["access"] - idle["access"]),
        "beside_copy_factor": sum(busy[name] for name in others) / sum(idle[name] for name in others),
    }


def beside_copies_in(
    call: Callable[..., None], node: int, host: torch.Tensor, device: torch.Tensor
) -> dict[str, float]:
    """Unmapping host memory while a copy to the device runs."""
    calls = Calls(call, Location(HOST_NUMA, node), SMALL)
    idle = calls.best()["unmap"]
    copied = torch.cuda.Event()

    def copy() -> None:
        device.copy_(host, non_blocking=True)
        copied.record()

    busy = []
    for _ in range(ROUNDS):
        torch.cuda.synchronize()
        took = calls.once(before_unmap=copy)["unmap"]
        if not copied.query():  # it ran all the time
            busy.append(took)
    torch.cuda.synchronize()
    return {"host_unmap_beside_copy_in_factor": min(busy) / idle} if busy and idle > 0 else {}


def memory_calls(host: torch.Tensor, device: torch.Tensor) -> dict[str, float]:
    call = driver_calls()
    found = lines(call, Location(DEVICE, 0), "") | pinning(call) | beside_copies(call, host, device)
    node = ctypes.c_int()
    try:
        call("cuDeviceGetAttribute", ctypes.byref(node), NUMA_ID, 0)
        found |= lines(call, Location(HOST_NUMA, max(0, node.value)), "host_")
        found |= beside_copies_in(call, max(0, node.value), host, device)
    except Refused:
        pass  # an older driver, or a container
    return found


def main() -> None:
    host = torch.empty(BYTES, dtype=torch.uint8, pin_memory=True)
    device, other = (torch.empty(BYTES, dtype=torch.uint8, device="cuda") for _ in range(2))
    one = torch.zeros(1, device="cuda")
    said.data(
        "rates",
        shortest_us=best(lambda: one.add_(1), 1000 if FULL else 10),
        memory_bytes_per_us=2 * BYTES / best(lambda: other.copy_(device), 5),
        copy_in_bytes_per_us=BYTES / best(lambda: device.copy_(host, non_blocking=True), 2),
        copy_out_bytes_per_us=BYTES / best(lambda: host.copy_(device, non_blocking=True), 2),
        operations_per_us_2_bytes=product(torch.bfloat16),
        operations_per_us_4_bytes=product(torch.float32),
        operations_per_us_8_bytes=product(torch.float64),
        **{each.rate: each.counted / best(each.work, 10) for each in operators.classes(FULL)},
    )
    said.data("calls", **memory_calls(host, device))


if __name__ == "__main__":
    main()
