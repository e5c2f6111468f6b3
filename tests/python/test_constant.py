"""hocket.constant(): what it refuses, and with which words. tests/torch/test_constant_memory.py has a GPU."""

from __future__ import annotations

import hocket
import pytest
import torch
from fakes import FakeNative
from torch.testing._internal.two_tensor import TwoTensor


def test_what_is_not_on_a_gpu_is_let_pass_where_there_is_none(native: FakeNative) -> None:
    assert hocket.constant(torch.nn.Linear(4, 4).requires_grad_(False)) == 0
    assert native.story == []


def test_what_is_not_on_a_gpu_is_named_where_there_is_one(native: FakeNative, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    with pytest.raises(ValueError, match=r"Linear\.weight is not on a GPU, nor is another of 2"):
        hocket.constant(torch.nn.Linear(4, 4).requires_grad_(False))


def test_a_module_that_learns_is_refused(native: FakeNative) -> None:
    with pytest.raises(ValueError, match=r"constant\(Linear\): all its parameters require gradients"):
        hocket.constant(torch.nn.Linear(4, 4))


def test_a_tensor_that_learns_is_refused(native: FakeNative) -> None:
    frozen, learns = torch.zeros(4), torch.zeros(4, requires_grad=True)
    with pytest.raises(ValueError, match="tensor 1 requires gradients, so an optimizer may change it"):
        hocket.constant([frozen, learns])


def test_a_part_of_a_memory_is_refused(native: FakeNative) -> None:
    with pytest.raises(ValueError, match="tensor 0 has 16 bytes of a memory of 40"):
        hocket.constant(torch.zeros(10)[:4])


def test_a_tensor_made_of_others_is_refused(native: FakeNative) -> None:
    with pytest.raises(ValueError, match=r"tensor 0, a TwoTensor .* is made of other tensors"):
        hocket.constant(TwoTensor(torch.zeros(4), torch.zeros(4)))
    with pytest.raises(ValueError, match=r"layout torch.sparse_coo"):
        hocket.constant(torch.zeros(4).to_sparse())


def test_what_is_no_tensor_is_refused(native: FakeNative) -> None:
    for wrong in (3, ["weight"]):
        with pytest.raises(TypeError, match="takes a module, a tensor or tensors, not"):
            hocket.constant(wrong)
