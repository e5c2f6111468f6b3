"""Waiting for a DataLoader's workers, as the job is told of it."""

from __future__ import annotations

import pytest
import torch
from fakes import FakeNative
from hocket import loading
from torch.utils.data import DataLoader, dataloader


@pytest.fixture
def job(monkeypatch: pytest.MonkeyPatch) -> FakeNative:
    waits = dataloader._MultiProcessingDataLoaderIter._get_data
    monkeypatch.setattr(dataloader._MultiProcessingDataLoaderIter, "_get_data", waits)
    job = FakeNative(torch.__version__)
    loading.watch(job)
    return job


def test_each_wait_for_a_worker_is_told(job: FakeNative) -> None:
    assert len(list(DataLoader(torch.arange(6), batch_size=2, num_workers=1))) == 3
    assert job.story == ["away", "back"] * 3


def test_loading_in_the_training_thread_is_not(job: FakeNative) -> None:
    assert len(list(DataLoader(torch.arange(6), batch_size=2))) == 3
    assert job.story == []


class Broken(torch.utils.data.Dataset):
    def __len__(self) -> int:
        return 2

    def __getitem__(self, i: int) -> int:
        raise ValueError("no such row")


def test_an_error_ends_it_too(job: FakeNative) -> None:
    with pytest.raises(ValueError, match="no such row"):
        list(DataLoader(Broken(), num_workers=1))
    assert job.story == ["away", "back"]
