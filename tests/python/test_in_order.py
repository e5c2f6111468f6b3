"""hocket.restore_in_order(): which hooks wait for what. tests/torch/test_restore_in_order.py has a GPU."""

from __future__ import annotations

import copy
import io

import hocket
import pytest
import torch
from fakes import FakeNative
from torch import nn

LAST = f"await {FakeNative.last_stage}"


class Twice(nn.Module):
    """Its modules in another order than that in which they are called, and one of them twice."""

    def __init__(self) -> None:
        super().__init__()
        self.second, self.first = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(self.first(self.first(x)))


def awaited(native: FakeNative) -> list[int]:
    found = [int(line.split()[1]) for line in native.story if line.startswith("await")]
    native.story.clear()
    return found


def test_modules_are_awaited_in_the_order_of_their_first_calls(native: FakeNative) -> None:
    model = Twice()
    hocket.restore_in_order(model)
    for _ in range(2):
        model(torch.zeros(4))
        first, again, second = awaited(native)
        assert first == again
        assert second == first + 1


def test_an_optimizer_awaits_everything_before_its_step(native: FakeNative) -> None:
    model = nn.Linear(4, 4)
    optimizer = torch.optim.Adam(model.parameters())
    hocket.restore_in_order(optimizer)
    model(torch.zeros(4)).sum().backward()
    assert native.story == []
    optimizer.step()
    assert set(native.story) == {LAST}


def test_any_optimizer_awaits_the_parameters_of_a_module_in_order(native: FakeNative) -> None:
    model = nn.Linear(4, 4)
    hocket.restore_in_order(model)
    model(torch.zeros(4)).sum().backward()
    native.story.clear()
    torch.optim.SGD(model.parameters()).step()
    assert LAST in native.story


def test_what_saves_and_loads_awaits_everything(native: FakeNative) -> None:
    model = nn.Sequential(nn.Linear(4, 4))
    optimizer = torch.optim.Adam(model.parameters())
    hocket.restore_in_order(model, optimizer)
    saved = model.state_dict()
    assert native.story == [LAST]
    model.load_state_dict(saved)
    assert native.story == [LAST, LAST]
    optimizer.load_state_dict(optimizer.state_dict())
    assert native.story == [LAST] * 4


def test_modules_and_optimizers_in_order_are_copied_and_saved(native: FakeNative) -> None:
    model = nn.Sequential(nn.Linear(4, 4))
    hocket.restore_in_order(model)
    model(torch.zeros(4))
    copied = copy.deepcopy(model)
    file = io.BytesIO()
    torch.save(copied, file)
    file.seek(0)
    awaited(native)
    torch.load(file, weights_only=False)(torch.zeros(4))
    assert len(awaited(native)) == 1


def test_a_compiled_module_is_refused(native: FakeNative) -> None:
    with pytest.raises(ValueError, match=r"restore_in_order\(Sequential\): 0 is compiled"):
        hocket.restore_in_order(nn.Sequential(torch.compile(nn.Linear(4, 4))))
    model = nn.Linear(4, 4)
    model.compile()
    with pytest.raises(ValueError, match=r"restore_in_order\(Linear\): it is compiled"):
        hocket.restore_in_order(model)


def test_other_things_are_refused(native: FakeNative) -> None:
    with pytest.raises(TypeError, match="takes modules and optimizers, not list"):
        hocket.restore_in_order([nn.Linear(4, 4)])  # type: ignore[arg-type]
