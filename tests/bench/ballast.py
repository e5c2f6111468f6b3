"""A program outside Hocket that fills device 0; see harness.Worker.

``{"leave": N}``: takes memory, or gives some back, until the driver says that N bytes are free, as near as its pieces
of 2 MiB allow; the answer says how many are free, and how many the device has. What it holds goes when it ends.

``{"copy": N}``: copies N bytes of what it holds to pinned memory of the host and then back, a piece at a time; the
answer says how many seconds each way took.
"""

from __future__ import annotations

import ctypes
import json
import sys
import time
from typing import Any

from tests.bench.monitor import memory_of_device_0

PIECE = 2 << 20  # what the driver maps at least
LARGEST = 512 << 20


class Ballast:
    def __init__(self) -> None:
        self._memory = memory_of_device_0()
        self._driver = ctypes.CDLL("libcuda.so.1")
        self._held: list[tuple[int, ctypes.c_uint64]] = []  # (bytes, address), the largest first

    def _take(self, size: int) -> bool:
        address = ctypes.c_uint64()
        if self._driver.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(size)) != 0:
            return False
        self._held.append((size, address))
        return True

    def leave(self, wanted: int) -> dict[str, int]:
        while self._held and self._memory()[0] < wanted:
            assert self._driver.cuMemFree_v2(self._held.pop()[1]) == 0
        size = LARGEST
        while size >= PIECE:
            if self._memory()[0] < wanted + size or not self._take(size):
                size //= 2
        self._held.sort(key=lambda piece: -piece[0])
        free, total = self._memory()
        return {"free": free, "total": total}

    def copy(self, size: int) -> dict[str, float]:
        piece, device = self._held[0]
        host = ctypes.c_void_p()
        self._do("cuMemAllocHost_v2", ctypes.byref(host), ctypes.c_size_t(piece))
        seconds = {}
        for way, call, to, source in (
            ("out", "cuMemcpyDtoH_v2", host, device),
            ("back", "cuMemcpyHtoD_v2", device, host),
        ):
            begin = time.perf_counter()
            for at in range(0, size, piece):
                self._do(call, to, source, ctypes.c_size_t(min(piece, size - at)))
            seconds[way] = time.perf_counter() - begin
        self._do("cuMemFreeHost", host)
        return seconds

    def _do(self, call: str, *arguments: Any) -> None:
        if error := getattr(self._driver, call)(*arguments):
            raise RuntimeError(f"{call}: error {error}")


def main() -> None:
    ballast = Ballast()
    for line in sys.stdin:
        request = json.loads(line)
        answer = ballast.copy(request["copy"]) if "copy" in request else ballast.leave(request["leave"])
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
