"""hocket.steps() and hocket.step(): where steps begin and end, whatever the loop does."""

from __future__ import annotations

import gc

import hocket
import pytest
import torch
from fakes import FakeNative


def test_each_batch_is_a_counted_step(native: FakeNative) -> None:
    assert list(hocket.steps([1, 2, 3])) == [1, 2, 3]
    assert native.story == ["join"] + ["begin", "end"] * 3
    assert native.steps == 3


def test_a_batch_is_fetched_between_two_steps(native: FakeNative) -> None:
    def loader():
        for i in range(2):
            native.story.append("fetch")
            yield i

    list(hocket.steps(loader()))
    assert native.story == ["fetch", "join", "begin", "end", "fetch", "begin", "end"]


def test_len_is_the_loaders(native: FakeNative) -> None:
    assert len(hocket.steps([1, 2, 3])) == 3
    with pytest.raises(TypeError):
        len(hocket.steps(iter([1])))


def test_the_same_steps_serve_every_epoch(native: FakeNative) -> None:
    steps = hocket.steps([1, 2])
    for _ in range(3):
        assert list(steps) == [1, 2]
    assert native.steps == 6


def test_break_ends_the_step_at_once(native: FakeNative) -> None:
    steps = hocket.steps([1, 2, 3])
    for batch in steps:
        if batch == 2:
            break
    assert native.depth == 0
    assert native.steps == 1
    assert native.story[-1] == "end uncounted"


def test_an_exception_in_the_loop_ends_the_step_at_once(native: FakeNative) -> None:
    with pytest.raises(ZeroDivisionError):
        for batch in hocket.steps([1, 0]):
            _ = 1 / batch
    assert native.depth == 0
    assert native.steps == 1


def test_ctrl_c_in_the_loop_ends_the_step(native: FakeNative) -> None:
    with pytest.raises(KeyboardInterrupt):
        for _ in hocket.steps([1, 2]):
            raise KeyboardInterrupt
    assert native.depth == 0


def test_an_exception_of_the_loader_comes_out_of_the_loop_between_steps(native: FakeNative) -> None:
    def loader():
        yield 1
        raise OSError("disk gone")

    with pytest.raises(OSError, match="disk gone"):
        list(hocket.steps(loader()))
    assert native.depth == 0
    assert native.steps == 1


def test_passes_that_are_zipped_make_one_step_of_each_pair(native: FakeNative) -> None:
    for _ in zip(hocket.steps([1, 2, 3]), hocket.steps([1, 2, 3]), strict=False):
        assert native.depth == 2
    assert native.depth == 0
    assert native.steps == 3


def test_a_step_that_outlives_the_one_it_is_part_of_ends_with_it(native: FakeNative) -> None:
    outer, inner = hocket.step(), hocket.step()
    outer.__enter__()
    inner.__enter__()
    outer.__exit__(None, None, None)
    assert native.depth == 0
    with hocket.step():
        inner.__exit__(None, None, None)
        assert native.depth == 1
    assert native.steps == 2


def test_a_generator_that_is_closed_ends_the_step(native: FakeNative) -> None:
    def program():
        yield from hocket.steps([1, 2, 3])

    running = program()
    next(running)
    assert native.depth == 1
    running.close()
    assert native.depth == 0


def test_an_iterator_thrown_away_ends_the_step(native: FakeNative) -> None:
    steps = hocket.steps([1, 2])
    assert next(steps) == 1
    assert native.depth == 1
    del steps
    gc.collect()
    assert native.depth == 0


def test_a_step_inside_a_step_is_part_of_the_outer_one(native: FakeNative) -> None:
    for _ in hocket.steps([1, 2]):
        for _ in hocket.steps([1, 2, 3]):
            pass
        with hocket.step():
            pass
    assert native.depth == 0
    assert native.steps == 2


def test_with_step_counts_once(native: FakeNative) -> None:
    with hocket.step() as step:
        assert native.depth == 1
        assert step.coordinated
    assert (native.depth, native.steps) == (0, 1)


def test_with_step_that_fails_is_not_counted(native: FakeNative) -> None:
    with pytest.raises(ValueError), hocket.step():
        raise ValueError
    assert (native.depth, native.steps) == (0, 0)


def test_gradients_are_freed_inside_the_step_when_the_optimizer_is_given(native: FakeNative) -> None:
    weight = torch.nn.Parameter(torch.ones(2))
    optimizer = torch.optim.SGD([weight], lr=0.1)
    seen = []
    real_end = native.end_step
    native.end_step = lambda count, step: (seen.append(weight.grad), real_end(count, step))
    for _ in hocket.steps([1, 2], optimizer=optimizer):
        weight.sum().backward()
        optimizer.step()
    assert seen == [None, None]


def test_several_optimizers_may_be_given(native: FakeNative) -> None:
    weights = [torch.nn.Parameter(torch.ones(2)) for _ in range(2)]
    optimizers = [torch.optim.SGD([weight], lr=0.1) for weight in weights]
    for _ in hocket.steps([1], optimizer=optimizers):
        (weights[0].sum() + weights[1].sum()).backward()
    assert [weight.grad for weight in weights] == [None, None]


def test_what_is_no_loader_is_refused_by_name(native: FakeNative) -> None:
    with pytest.raises(TypeError, match="not int"):
        hocket.steps(3)


def test_what_is_no_optimizer_is_refused_by_name(native: FakeNative) -> None:
    with pytest.raises(TypeError, match="str has no zero_grad"):
        hocket.steps([1], optimizer="adam")
