"""Threads that may use the GPU though Hocket has not seen them: they have allocated nothing on it yet.

While a job's memory is on the host such a thread finds it there, slowly, as far as that has been prepared: behind the
copying, in a few hundred milliseconds for 10 GB. Where there may be such threads it is prepared with the copying, which
takes twice as long (docs/decisions/0020). So it matters which threads run; it is looked at when their number changes.
"""

from __future__ import annotations

import threading
from typing import Any

# Whose threads never touch tensors on a GPU. (A DataLoader's thread pins memory of the host.)
HARMLESS = (
    "hocket", "multiprocessing", "torch.utils.data", "torch.utils.tensorboard", "torch._inductor", "tensorboard",
    "tqdm", "wandb", "ipykernel", "IPython",
)  # fmt: skip

_seen = 1  # threads, when it was looked last: the main one


def look(native: Any) -> None:
    """To be called at each begin of a step. Costs some hundred nanoseconds while no thread comes or goes."""
    global _seen
    count = threading.active_count()
    if count != _seen:
        _seen = count
        native.expect_strays(any(not _is_harmless(thread) for thread in threading.enumerate()))


def _is_harmless(thread: threading.Thread) -> bool:
    if thread is threading.main_thread() or thread is threading.current_thread():
        return True
    target = getattr(thread, "_target", None)
    places = (type(thread).__module__, getattr(target, "__module__", None) or "")
    return any(place == name or place.startswith(name + ".") for place in places for name in HARMLESS)
