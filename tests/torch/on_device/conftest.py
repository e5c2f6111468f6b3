"""Hocket's allocator is PyTorch's here: hocket is imported before CUDA starts."""

import gc

import hocket  # noqa: F401
import pytest
import torch


@pytest.fixture(autouse=True)
def nothing_left():
    """Each test begins and ends with no block of its own."""
    torch.cuda.init()
    before = torch.cuda.memory_allocated()
    yield
    gc.collect()
    assert torch.cuda.memory_allocated() == before
