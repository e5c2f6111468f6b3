"""Ranks that meet in ``init_process_group`` become a gang: their turns come together.

Every rank puts the name of its coordinator (machine and socket) into the group's own store and reads the others'.
Those that share a coordinator form one gang of it; a job spread over several machines has one gang on each.
Nothing orders these gangs with each other. A rank whose process does not run Hocket says nothing there: the others
do not wait for it for long, and form no gang.
"""

from __future__ import annotations

import contextlib
import datetime
import functools
import os
import socket
import sys
from typing import Any

from hocket import _job

# init_process_group ends at about the same time in all ranks.
PATIENCE = datetime.timedelta(seconds=10)

_meetings = 0


def install() -> None:
    """Wraps ``torch.distributed.init_process_group``. Does nothing where torch has no distributed part."""
    import torch.distributed as distributed

    if not distributed.is_available() or hasattr(distributed.init_process_group, "_hocket_original"):
        return
    from torch.distributed import distributed_c10d

    original = distributed_c10d.init_process_group

    @functools.wraps(original)
    def init_process_group(*args: Any, **kwargs: Any) -> Any:
        result = original(*args, **kwargs)
        meet(distributed_c10d)
        return result

    init_process_group._hocket_original = original  # type: ignore[attr-defined]
    # Parts of torch.distributed (device_mesh) have a name of their own for it, and so has whoever imported it before.
    for module in list(sys.modules.values()):
        with contextlib.suppress(Exception):  # anything may stand there, and it is the program's
            names = object.__getattribute__(module, "__dict__")  # getattr, and vars, would load a lazy module
            if names.get("init_process_group") is original:
                names["init_process_group"] = init_process_group


def meet(distributed: Any) -> None:
    """The default group has just met: this rank joins the gang of those that share its coordinator."""
    size, rank = distributed.get_world_size(), distributed.get_rank()
    meeting = _count_meeting()
    if size < 2 or "fake" in distributed.get_backend():  # fake: nobody is there, and its store keeps nothing
        return
    store, key = distributed._get_default_store(), f"hocket/gang/{meeting}"
    if store is None:  # MPI's ranks have none
        _job.say("the ranks of this job do not take their turns together: under MPI they share no store to meet in.")
        return
    if rank == 0:
        store.set(f"{key}/name", os.urandom(6).hex())
    store.set(f"{key}/{rank}", f"{_machine()} {_job.coordinator_path()}")
    members = _members(store, [f"{key}/{other}" for other in range(size)])
    if members is None:
        return
    local = [other for other in range(size) if members[other] == members[rank]]
    if len(local) > 1:
        _job.join_gang(store.get(f"{key}/name").decode(), local.index(rank), len(local))


def _members(store: Any, keys: list[str]) -> list[bytes] | None:
    """What every rank has said of itself; None, with a sentence, where not all have."""
    try:
        store.wait(keys, PATIENCE)
    except RuntimeError:
        silent = [rank for rank, key in enumerate(keys) if not store.check([key])]
        ranks = f"{len(silent)} of {len(keys)} ranks (the first: {silent[0]})" if silent else "some ranks"
        _job.say(
            f"the ranks of this job do not take their turns together: in {PATIENCE.total_seconds():g} s {ranks} "
            "did not say where their coordinator is. Does every rank import hocket, or run under hocket run?"
        )
        return None
    return [store.get(key) for key in keys]


def _count_meeting() -> int:
    """All ranks meet equally often, so the number tells a meeting from those before it in the same store."""
    global _meetings
    _meetings += 1
    return _meetings


def _machine() -> str:
    """The same for all processes of one machine (also in containers of one kernel), different elsewhere."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return socket.gethostname()
