"""Runs another program in which a function of the CUDA driver does nothing: a mistake, seeded.

    without.py cuEventSynchronize train.py [ARGUMENT...]

The function's first instructions are overwritten in this process; neither Hocket nor the emulated GPU has a switch
for it.
"""

from __future__ import annotations

import ctypes
import mmap
import pathlib
import platform
import runpy
import sys

RETURN_ZERO = {"x86_64": bytes.fromhex("31c0c3"), "aarch64": bytes.fromhex("00008052c0035fd6")}


def silence(function: str) -> None:
    code = RETURN_ZERO[platform.machine()]
    address = ctypes.cast(ctypes.CDLL("libcuda.so.1")[function], ctypes.c_void_p).value
    assert address
    page = address & -mmap.PAGESIZE
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    assert libc.mprotect(page, 2 * mmap.PAGESIZE, mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC) == 0
    ctypes.memmove(address, code, len(code))


silence(sys.argv[1])
sys.argv = sys.argv[2:]
runpy.run_path(str(pathlib.Path(__file__).with_name(sys.argv[0])), run_name="__main__")
