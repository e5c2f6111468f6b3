"""What a Python process needs on the emulated GPU beyond the preloaded libraries (csrc/emulator).

``hocket emulate`` preloads a CUDA runtime in which PyTorch's own CUDA calls end; the operators are computed by
PyTorch's CPU kernels. Two things are Python's to arrange: process groups and compilation would reach for NCCL and
Triton, which need a real GPU. Each says once on stderr what serves instead. A program needs no change.
"""

from __future__ import annotations

import ctypes
import os


def activate() -> None:
    """Loads the operators and arranges the rest. Does nothing in a process without the preloaded runtime."""
    load = getattr(ctypes.CDLL(None), "hocket_emulator_load_operators", None)
    if load is None:
        return
    # Newer versions of torch put Triton kernels in place of some operators at the end of their import.
    os.environ["TORCH_DISABLE_NATIVE_JIT"] = "1"
    load()
    from hocket.emulator import compilation, process_groups

    process_groups.install()
    compilation.install()
