"""``hocket.restore_in_order()``: what a step needs late comes back while the step runs.

A stage is a moment in the step at which memory is needed: when a module is called, in the order of the first call, and
last when an optimizer steps. Hooks of PyTorch say that it has come, and wait there for what is still on its way.
"""

from __future__ import annotations

import functools
import itertools
from typing import TYPE_CHECKING, Any

from hocket import _job
from hocket.errors import HocketError

if TYPE_CHECKING:
    import torch

_stages = itertools.count(1)


def restore_in_order(*needed: torch.nn.Module | torch.optim.Optimizer) -> None:
    """Lets a step begin while memory that it needs later is still on its way back from the host.

    Of an optimizer, its state follows until its ``step()``. Of a module, the parameters of each of its modules follow
    until that one is called, in the order of the first calls from now on: for inference, where hardly anything else is
    there to wait for. It makes a difference only where a job's memory had to leave the GPU; otherwise it costs a
    call of a hook.

    Until its moment such memory may be read, slowly, where the driver can map host memory for reading alone; a write,
    or elsewhere any access, by something other than these calls ends the program with an illegal memory access, and
    nothing is computed from wrong bytes. ``state_dict()`` and ``load_state_dict()`` wait for everything. Where a CUDA
    graph or another private pool exists, everything comes back before the step.

    Args:
        needed: optimizers and modules, which are on the GPU, or whose memory will be when they are used first.

    Raises:
        ValueError: a module that is compiled: it is called as a whole.

    >>> hocket.restore_in_order(optimizer)           # training
    >>> hocket.restore_in_order(model)               # inference
    """
    import torch

    _job.require()
    for each in needed:
        if isinstance(each, torch.optim.Optimizer):
            _OfOptimizer(each)
        elif isinstance(each, torch.nn.Module):
            _check(each)
            _await_before_every_optimizer()
            for module in each.modules():
                if any(True for _ in module.parameters(recurse=False)):
                    _OfModule(module)
        else:
            raise TypeError(f"hocket.restore_in_order() takes modules and optimizers, not {type(each).__name__}")


def _check(of: torch.nn.Module) -> None:
    for name, module in of.named_modules():
        if hasattr(module, "_orig_mod") or module._compiled_call_impl is not None:
            raise ValueError(f"hocket.restore_in_order({type(of).__name__}): {name or 'it'} is compiled: it is called "
                             "as a whole. Pass the optimizer alone, or do not compile.")  # fmt: skip


def _set_stage(tensor: torch.Tensor, stage: int) -> None:
    if not tensor.is_cuda or hasattr(tensor, "__tensor_flatten__"):
        return
    try:
        _job.require().set_stage(tensor.untyped_storage().data_ptr(), stage)
    except HocketError as error:
        _say_once(str(error))


@functools.cache
def _say_once(sentence: str) -> None:
    _job.say(sentence)


def _await_everything(*_: Any) -> None:
    native = _job.require()
    native.await_stage(native.last_stage)


@functools.cache
def _await_before_every_optimizer() -> None:
    from torch.optim import optimizer

    optimizer.register_optimizer_step_pre_hook(_await_everything)


# What follows is copied and saved with modules and optimizers, as their hooks.


class _OfModule:
    """One module's own parameters."""

    def __init__(self, module: torch.nn.Module) -> None:
        self.stage = 0  # not called yet
        module.register_forward_pre_hook(self.before_call)
        module.register_state_dict_pre_hook(_await_everything)
        module.register_load_state_dict_pre_hook(_await_everything)

    def before_call(self, module: torch.nn.Module, _: Any) -> None:
        if self.stage == 0:
            self.stage = next(_stages)
            for parameter in module.parameters(recurse=False):
                if not hasattr(parameter, "_hocket_stage"):  # modules may share one: the first that is called
                    parameter._hocket_stage = self.stage  # type: ignore[attr-defined]
                    _set_stage(parameter, self.stage)
        _job.require().await_stage(self.stage)


class _OfOptimizer:
    """An optimizer's state, which it makes at its first step."""

    def __init__(self, optimizer: torch.optim.Optimizer) -> None:
        self.known = -1  # parameters with a state that is declared
        optimizer.register_step_pre_hook(_await_everything)
        optimizer.register_step_post_hook(self.after_step)
        optimizer.register_state_dict_pre_hook(_await_everything)
        optimizer.register_load_state_dict_pre_hook(_await_everything)
        optimizer.register_load_state_dict_post_hook(self.loaded)

    def loaded(self, *_: Any) -> None:
        self.known = -1

    def after_step(self, optimizer: torch.optim.Optimizer, *_: Any) -> None:
        import torch

        if len(optimizer.state) == self.known:
            return
        self.known = len(optimizer.state)
        last = _job.require().last_stage
        for parameter, state in optimizer.state.items():
            for value in state.values() if isinstance(state, dict) else ():
                if isinstance(value, torch.Tensor) and value is not parameter:
                    _set_stage(value, last)
