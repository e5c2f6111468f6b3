"""Waiting for a DataLoader's workers is no use of the device.

While a thread waits there, its job's memory may be moved to the host for others, as while it waits for its turn. Only
the wait itself counts: a data set, a sampler or a collate function that runs in the training thread may use the device.
"""

from __future__ import annotations

import functools
from typing import Any, Protocol


class Absence(Protocol):
    """What is told of a thread: a job's ``_native``."""

    def begin_away(self) -> None: ...
    def end_away(self) -> None: ...


def watch(job: Absence) -> None:
    """Tells ``job`` from now on of every wait for a DataLoader with workers. Once per process.

    Where this PyTorch waits in another place, nothing is told: the job is moved a little less often.
    """
    from torch.utils.data import dataloader

    loaders = dataloader._MultiProcessingDataLoaderIter
    waits = getattr(loaders, "_get_data", None)
    if waits is None:
        return

    @functools.wraps(waits)
    def get_data_away(self: Any) -> Any:
        job.begin_away()
        try:
            return waits(self)
        finally:
            job.end_away()

    loaders._get_data = get_data_away  # type: ignore[method-assign]
