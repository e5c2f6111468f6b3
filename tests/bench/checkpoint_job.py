"""Moves a process with so many bytes of device memory to the host and back with the driver's checkpoint calls
(checkpoint.py): ``checkpoint_job.py BYTES``; see harness.Worker.

The process is its child (``--child``), which the system lets it do that to. A round for each line: how long lock and
checkpoint took, and restore and unlock, in nanoseconds, and whether the child's bytes are what they were. A first
round, which is not asked for, is answered too, with ``through``. ``{"not_measured": WHY}``: the driver does not do it.

What else the child has on the device (its context) moves, too. It holds no more than that.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import signal
import subprocess
import sys
import time
from typing import Any

from tests.bench import checkpoint
from tests.bench.monitor import memory_of_device_0

BLOCK = 64 << 20
LOOKED_AT = 4096  # bytes at either end of a block
LIMIT_S = 60  # a round that takes longer ends this process, and its child with it


def _say(**what: Any) -> None:
    print(json.dumps(what), flush=True)


def hold(size: int) -> None:
    """The child: takes the memory, and says for each line whether it is as it was."""
    memory_of_device_0()  # makes the context
    driver = ctypes.CDLL("libcuda.so.1")
    blocks = []
    for number in range(max(1, size // BLOCK)):
        address = ctypes.c_uint64()
        if code := driver.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(min(size, BLOCK))):
            return _say(not_measured=f"cuMemAlloc of {min(size, BLOCK):,} bytes, the {number + 1}th: error {code}")
        driver.cuMemsetD8_v2(address, ctypes.c_ubyte(1 + number % 200), ctypes.c_size_t(min(size, BLOCK)))
        blocks.append(address)
    driver.cuCtxSynchronize()
    _say()
    read = ctypes.create_string_buffer(LOOKED_AT)

    def holds(address: int, byte: int) -> bool:
        copied = driver.cuMemcpyDtoH_v2(read, ctypes.c_uint64(address), ctypes.c_size_t(LOOKED_AT)) == 0
        return copied and read.raw == bytes([byte]) * LOOKED_AT

    for _ in sys.stdin:
        ends = (0, min(size, BLOCK) - LOOKED_AT)
        _say(right=all(holds(block.value + end, 1 + i % 200) for i, block in enumerate(blocks) for end in ends))


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)  # PR_SET_PDEATHSIG


def main(size: int) -> None:
    try:
        calls = checkpoint.find()
    except checkpoint.Refused as why:
        return _say(not_measured=str(why))
    command = [sys.executable, "-m", "tests.bench.checkpoint_job", str(size), "--child"]
    child = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, preexec_fn=_die_with_parent
    )
    assert child.stdin and child.stdout

    def answer() -> dict[str, Any]:
        line = child.stdout.readline()
        return json.loads(line) if line else {"not_measured": f"the child has ended with status {child.wait()}"}

    def measure() -> dict[str, Any]:
        begin = time.perf_counter_ns()
        calls.to_host(child.pid)
        middle = time.perf_counter_ns()
        calls.back(child.pid)
        end = time.perf_counter_ns()
        with contextlib.suppress(BrokenPipeError):  # answer() says why
            child.stdin.write("\n")
            child.stdin.flush()
        return {"through": calls.through, "out": middle - begin, "in": end - middle, **answer()}

    try:
        found = answer()
        while "not_measured" not in found:
            signal.alarm(LIMIT_S)
            found = measure()
            signal.alarm(0)
            if "not_measured" in found:
                break
            _say(**found)
            if not sys.stdin.readline():
                return
        _say(not_measured=found["not_measured"])
    except checkpoint.Refused as why:
        _say(not_measured=str(why))
    finally:
        child.kill()
        child.wait()


if __name__ == "__main__":
    hold(int(sys.argv[1])) if "--child" in sys.argv else main(int(sys.argv[1]))
