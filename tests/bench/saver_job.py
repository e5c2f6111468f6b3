"""Moves so many bytes of device memory to the host and back with torch_memory_saver (pause and resume, with a copy on
the host): ``saver_job.py BYTES``; see harness.Worker.

A round for each line: how long pause and resume took, in nanoseconds, and whether the bytes are what they were. A first
round, which is not asked for, is answered too, with ``through``. Where the library can keep its host memory from one
pause to the next, as Hocket does, it is told to. ``{"not_measured": WHY}``: it is not installed, or does not work here.
"""

from __future__ import annotations

import importlib.metadata
import json
import sys
import time
from typing import Any

BLOCK = 64 << 20


def _say(**what: Any) -> None:
    print(json.dumps(what), flush=True)


def main(size: int) -> None:
    try:
        from torch_memory_saver import torch_memory_saver as saver
    except ImportError as error:
        missing = isinstance(error, ModuleNotFoundError) and error.name == "torch_memory_saver"
        return _say(not_measured="torch_memory_saver is not installed" if missing else f"torch_memory_saver: {error}")
    through = f"torch_memory_saver {importlib.metadata.version('torch_memory_saver')}"
    try:
        _measure(saver, through, size)
    except Exception as error:
        _say(not_measured=f"{through}: {type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}")


def _measure(saver: Any, through: str, size: int) -> None:
    import torch

    saver.hook_mode = "torch"  # PyTorch's own interface for allocators: nothing is preloaded
    with saver.region(enable_cpu_backup=True):
        blocks = [torch.full((min(size, BLOCK),), 1 + i % 200, dtype=torch.uint8, device="cuda")
                  for i in range(max(1, size // BLOCK))]  # fmt: skip
    keeps = hasattr(type(saver), "retain_cpu_backup")
    if keeps:
        saver.retain_cpu_backup = True
    torch.cuda.synchronize()
    while True:
        begin = time.perf_counter_ns()
        saver.pause()
        torch.cuda.synchronize()
        middle = time.perf_counter_ns()
        saver.resume()
        torch.cuda.synchronize()
        end = time.perf_counter_ns()
        right = all(int(block[at]) == 1 + i % 200 for i, block in enumerate(blocks) for at in (0, -1))
        _say(through=through, keeps_host_memory=keeps, out=middle - begin, right=right, **{"in": end - middle})
        if not sys.stdin.readline():
            return


if __name__ == "__main__":
    main(int(sys.argv[1]))
