"""PyTorch's allocator is the one that HOCKET_ALLOCATOR says: hocket is imported before CUDA starts."""

import gc

import hocket  # noqa: F401
import pytest
import torch


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "hockets_own: of what PyTorch's native allocator says or does otherwise")


@pytest.fixture(autouse=True)
def nothing_left():
    """Each test begins and ends with no block of its own."""
    torch.cuda.init()
    before = torch.cuda.memory_allocated()
    yield
    gc.collect()
    assert torch.cuda.memory_allocated() == before
