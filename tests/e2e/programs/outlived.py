"""Ends, again and again, while a thread of its own asks for the interpreter's lock.

    outlived.py TIMES

Each time in a forked child, whose thread waits in C++, without the lock. What is destroyed while the interpreter ends
lets that go on, and waits until the thread stands still. Says "N of TIMES ended well". Needs no Hocket, and no GPU.
"""

from __future__ import annotations

import contextlib
import os
import platform
import sys
import threading

from torch.distributed import HashStore

# System calls, as Linux numbers them.
READ, FUTEX, PAUSE = {"x86_64": (b"0 ", b"202 ", b"34 "), "aarch64": (b"63 ", b"98 ", b"73 ")}[platform.machine()]


def calls(process: int, thread: int) -> int:
    """A file that says the system call in which the thread is."""
    return os.open(f"/proc/{process}/task/{thread}/syscall", os.O_RDONLY)


def wait_until_in(file: int, call: bytes, read=os.pread, give_way=os.sched_yield, gone=contextlib.suppress) -> None:
    """Also works while the interpreter ends; returns if the thread ends."""
    with gone(OSError):
        while not read(file, 80, 0).startswith(call):
            give_way()


class Last:
    """Of the main module: destroyed after everything that a program can ask to be called at its end."""

    def __init__(self, tell: int, go_on: int) -> None:
        self.store = HashStore()
        waits = threading.Thread(target=self.store.wait, args=(["over"],), daemon=True)
        waits.start()
        assert waits.native_id
        self.calls, self.wait_until_in, self.pause = calls(os.getpid(), waits.native_id), wait_until_in, PAUSE
        os.write(tell, str(waits.native_id).encode())
        os.read(go_on, 1)

    def __del__(self) -> None:
        self.store.set("over", "yes")
        self.wait_until_in(self.calls, self.pause)


times = int(sys.argv[1])
well = 0
for _ in range(times):
    (told, tell), (go_on, let) = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        last = Last(tell, go_on)
        break
    thread = calls(child, int(os.read(told, 20)))
    wait_until_in(calls(child, child), READ)  # without the lock: the thread is not waiting for that
    wait_until_in(thread, FUTEX)
    os.write(let, b"!")
    well += os.waitpid(child, 0)[1] == 0
    for file in (told, tell, go_on, let):
        os.close(file)
else:
    print(f"{well} of {times} ended well")
