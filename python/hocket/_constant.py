"""``hocket.constant()``: memory that does not change is copied to the host once.

Nothing on a device tells what was written to, so the program says it. What PyTorch knows of a later write is used: the
tensor's version, compared before each spill (``csrc/torch/constants.h``), and, because the operators over lists of
tensors that optimizers use do not raise it, the gradients that an optimizer finds at its step.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from hocket import _job
from hocket.errors import HocketError

if TYPE_CHECKING:
    import torch

_declared: dict[int, tuple[weakref.ref[Any], str]] = {}  # by id(); a tensor that is gone removes itself


def constant(of: torch.nn.Module | torch.Tensor | Iterable[torch.Tensor], on: bool = True) -> int:
    """Promises that nobody writes to this memory until it is freed, or until ``hocket.constant(of, False)``.

    Frozen weights are then copied to the host once, however often the job is moved there; the copy is kept while they
    are on the GPU. A write through PyTorch ends the promise with a line on stderr, and nothing is lost. **A write that
    PyTorch does not count is lost at the next move:** one of a kernel of your own, through ``.data``, by
    ``torch._foreach_*`` (averages of weights), by a CUDA graph, or into a batch norm's running statistics; the second
    one of an operator that writes, allocates and writes again. ``HOCKET_VERIFY=1`` finds it.

    Args:
        of: a module, whose parameters without gradients are meant, and no buffers; or a tensor, or several.
        on: False takes the promise back; of a module, from everything in it.

    Returns:
        The bytes of memory that the promise is about. 0 where they are not Hocket's to move.

    Raises:
        ValueError: a tensor that requires gradients, has only a part of its memory or is made of other tensors; a
            module without a parameter without gradients; nothing is on a GPU.

    >>> backbone.requires_grad_(False)
    >>> hocket.constant(backbone)
    """
    import torch

    native = _job.require()
    if not on:
        for tensor in _everything_in(of):
            _take_back(native, tensor)
        return 0
    named = dict(_meant(of))
    for name, tensor in named.items():
        _check(name, tensor)
    on_gpu = {name: tensor for name, tensor in named.items() if tensor.is_cuda}
    if named and not on_gpu and torch.cuda.is_available():
        raise ValueError(f"hocket.constant(): {next(iter(named))} is not on a GPU, nor is another of {len(named)}. "
                         "Call it when they are there: what moves to the GPU lies in new memory.")  # fmt: skip
    _watch_optimizers()
    sizes: dict[int, int] = {}  # by address: tensors may share memory
    for name, tensor in on_gpu.items():
        address = tensor.untyped_storage().data_ptr()
        sizes[address] = _declare(native, tensor, f"{name} ({str(tensor.dtype)[6:]}, {tuple(tensor.shape)})")
    return sum(sizes.values())


def _meant(of: Any) -> Iterator[tuple[str, torch.Tensor]]:
    import torch

    if isinstance(of, torch.nn.Module):
        frozen = [(name, each) for name, each in of.named_parameters() if not each.requires_grad]
        if not frozen:
            raise ValueError(f"hocket.constant({type(of).__name__}): all its parameters require gradients, so "
                             "an optimizer may change them. Freeze what stays: requires_grad_(False)")  # fmt: skip
        yield from ((f"{type(of).__name__}.{name}", each) for name, each in frozen)
        return
    for i, each in enumerate(_tensors(of)):
        if not isinstance(each, torch.Tensor):
            raise TypeError(f"hocket.constant() takes a module, a tensor or tensors, not {type(each).__name__}")
        yield f"tensor {i}", each


def _tensors(of: Any) -> Iterable[Any]:
    import torch

    return [of] if isinstance(of, torch.Tensor) or not isinstance(of, Iterable) else of


def _everything_in(of: Any) -> Iterator[torch.Tensor]:
    import torch

    if isinstance(of, torch.nn.Module):
        yield from of.parameters()
        yield from of.buffers()
    else:
        yield from _tensors(of)


def _check(name: str, tensor: torch.Tensor) -> None:
    import torch

    if tensor.requires_grad:
        raise ValueError(f"hocket.constant(): {name} requires gradients, so an optimizer may change it. "
                         "Freeze it first: requires_grad_(False)")  # fmt: skip
    if hasattr(tensor, "__tensor_flatten__") or tensor.layout != torch.strided:
        raise ValueError(f"hocket.constant(): {name}, a {type(tensor).__name__} with layout {tensor.layout}, is made "
                         "of other tensors. Pass these.")  # fmt: skip
    own, all_of_it = tensor.numel() * tensor.element_size(), tensor.untyped_storage().nbytes()
    if own < all_of_it:
        raise ValueError(f"hocket.constant(): {name} has {own} bytes of a memory of {all_of_it}, and the promise is "
                         "about all of it. Pass a tensor that has all of it, or a copy: tensor.clone()")  # fmt: skip


def _declare(native: Any, tensor: torch.Tensor, name: str) -> int:
    try:
        size = int(native.declare_constant(tensor._cdata, name))
    except HocketError as error:
        _say_once(str(error))
        return 0
    key = id(tensor)
    _declared[key] = (weakref.ref(tensor, lambda _: _declared.pop(key, None)), name)
    return size


@functools.cache
def _say_once(sentence: str) -> None:
    _job.say(sentence)


def _take_back(native: Any, tensor: torch.Tensor) -> None:
    _declared.pop(id(tensor), None)
    if tensor.is_cuda:
        native.end_constant(tensor.untyped_storage().data_ptr())


@functools.cache
def _watch_optimizers() -> None:
    from torch.optim import optimizer

    optimizer.register_optimizer_step_pre_hook(_before_optimizer_step)


def _before_optimizer_step(optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> None:
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            if parameter.grad is None or id(parameter) not in _declared:
                continue
            name = _declared[id(parameter)][1]
            _take_back(_job.require(), parameter)
            _job.say(f"{name} was declared constant, and an optimizer has a gradient for it: it is copied to the host "
                     "at each spill again.")  # fmt: skip
