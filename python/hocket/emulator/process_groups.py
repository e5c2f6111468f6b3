"""``init_process_group("nccl")`` on the emulated GPU: served by gloo.

NCCL needs real GPUs. Whoever asks for its process group gets gloo's, which takes CUDA tensors too; the group goes on
calling itself ``nccl``, so a program that looks at its backend's name takes the way it takes on a GPU.
"""

from __future__ import annotations

from typing import Any

from hocket.emulator import _say

# What a program that asks for "nccl" gets, by version of torch: the second is the default since 2.15.
NCCL_CLASSES = ("ProcessGroupNCCL", "ProcessGroupNCCL2", "ProcessGroupNCCLLazy")


def install() -> None:
    """Puts gloo in NCCL's place. Does nothing where torch has no distributed part."""
    import torch.distributed as distributed

    if not distributed.is_available():
        return
    from torch.distributed import distributed_c10d

    original = getattr(distributed_c10d, "ProcessGroupNCCL", None)
    if original is None or not hasattr(distributed_c10d, "ProcessGroupGloo"):
        return
    if getattr(original, "_hocket_stand_in", False):
        return
    stand_in = _stand_in_for(original, distributed_c10d)
    for module in (distributed_c10d, distributed):
        for name in NCCL_CLASSES:
            if hasattr(module, name):
                setattr(module, name, stand_in)


def _stand_in_for(original: Any, distributed_c10d: Any) -> Any:
    class GlooForNCCL(distributed_c10d.ProcessGroupGloo):
        """What is made where NCCL's group is asked for."""

    class LooksLikeNCCL(type):
        # Torch 2.11 checks that it got what it asked for.
        def __instancecheck__(cls, group: object) -> bool:
            return isinstance(group, GlooForNCCL)

    class ProcessGroupNCCL(metaclass=LooksLikeNCCL):
        """Makes gloo's process group where NCCL's is asked for."""

        _hocket_stand_in = True
        Options = original.Options
        NCCLConfig = getattr(original, "NCCLConfig", None)

        def __new__(cls, store: Any, rank: int, size: int, options: Any = None, device: Any = None) -> Any:
            _say.once("nccl", "the emulated GPU has no NCCL: this process group is served by gloo.")
            timeout = getattr(options, "_timeout", None) or distributed_c10d.default_pg_timeout
            return GlooForNCCL(store, rank, size, timeout=timeout)

    return ProcessGroupNCCL
