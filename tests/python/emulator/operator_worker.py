"""Compares operators, modules or optimizers on the CPU and on the emulated GPU: one JSON line each.

usage: operator_worker.py {operators|modules|optimizers} NAME...     (names as `--list` prints them)

A line {"begin": NAME} comes first, so that whoever reads knows which one killed the process.
"""

from __future__ import annotations

import copy
import json
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import bits
import torch

warnings.filterwarnings("ignore")

# Their values are whatever the memory held.
UNINITIALISED = {"empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided"}

# As on a GPU, their index tensors are on the CPU.
INDICES_ON_CPU = {"tensor_split"}


class Outcome:
    def __init__(self) -> None:
        self.samples = 0
        self.refused_by_cpu = 0
        self.difference: str | None = None

    def compare(self, on_cpu: Callable[[], Any], on_cuda: Callable[[], Any], values: bool = True) -> None:
        torch.manual_seed(7)
        try:
            expected = on_cpu()
        except Exception:
            self.refused_by_cpu += 1
            return
        self.samples += 1
        torch.manual_seed(7)
        try:
            difference = self._difference(expected, on_cuda(), values)
        except Exception as error:
            lines = str(error).strip().splitlines() or [""]
            difference = f"{type(error).__name__}: {lines[0][:300]}"
        if difference and self.difference is None and self._repeats(on_cpu, expected, values):
            self.difference = f"sample {self.samples + self.refused_by_cpu - 1}: {difference}"

    @staticmethod
    def _difference(expected: dict, got: dict, values: bool) -> str | None:
        for part in expected:
            if found := bits.difference(expected[part], got[part], part, values):
                return found
        return None

    @staticmethod
    def _repeats(on_cpu: Callable[[], Any], expected: dict, values: bool) -> bool:
        """Does the CPU give its own bits again?"""
        torch.manual_seed(7)
        again = on_cpu()
        return all(
            repr(torch.utils._pytree.tree_map(_key, expected[p])) == repr(torch.utils._pytree.tree_map(_key, again[p]))
            for p in expected
        )


def _key(value: Any) -> Any:
    return hash(bytes(bits._bytes(bits._plain(value)).numpy())) if isinstance(value, torch.Tensor) else value


def _gradients(output: Any, inputs: list[torch.Tensor]) -> list[Any]:
    outputs = [t for t in bits.tensors_of(output) if isinstance(t, torch.Tensor) and t.requires_grad]
    if not outputs or not inputs:
        return []
    draw = torch.Generator().manual_seed(11)
    seeds = [torch.randn(t.shape, generator=draw, dtype=t.dtype).to(t.device) for t in outputs]
    return list(torch.autograd.grad(outputs, inputs, seeds, allow_unused=True))


def _wanting_gradient(value: Any) -> list[torch.Tensor]:
    return [t for t in bits.tensors_of(value) if isinstance(t, torch.Tensor) and t.requires_grad]


# Operators


def operators() -> dict[str, Any]:
    from torch.testing._internal.common_methods_invocations import op_db

    both = [
        op
        for op in op_db
        if torch.float32 in op.supported_dtypes("cpu") and torch.float32 in op.supported_dtypes("cuda")
    ]
    return {f"{op.name}.{op.variant_test_name}" if op.variant_test_name else op.name: op for op in both}


def compare_operator(op: Any) -> Outcome:
    outcome = Outcome()
    differentiable = op.supports_autograd and op.supports_dtype(torch.float32, "cpu")
    torch.manual_seed(5)
    for sample in op.sample_inputs("cpu", torch.float32, requires_grad=differentiable):
        arguments = (sample.input, sample.args, sample.kwargs)

        def run(move: Callable[[Any], Any]) -> dict:
            first, rest, named = move(arguments)
            if op.name in INDICES_ON_CPU:
                rest, named = sample.args, sample.kwargs
            inputs = _wanting_gradient((first, rest, named))
            output = op(first, *rest, **named)
            processed = sample.output_process_fn_grad(output)
            return {"result": output, "gradient": _gradients(processed, inputs) if differentiable else []}

        outcome.compare(lambda: run(_Cloned()), lambda: run(bits.ToCuda()), op.name not in UNINITIALISED)
    return outcome


class _Cloned:
    """The CPU's own copy, storages whole, so that operators may write their arguments."""

    def __call__(self, value: Any) -> Any:
        return copy.deepcopy(torch.utils._pytree.tree_map(self._leaf, value))

    @staticmethod
    def _leaf(value: Any) -> Any:
        return value.detach().requires_grad_(value.requires_grad) if isinstance(value, torch.Tensor) else value


# Modules


def modules() -> dict[str, Any]:
    from torch.testing._internal.common_modules import module_db

    return {info.name: info for info in module_db}


def compare_module(info: Any) -> Outcome:
    outcome = Outcome()
    for training in (True, False):
        torch.manual_seed(5)
        samples = info.module_inputs_func(
            info, device="cpu", dtype=torch.float32, requires_grad=True, training=training
        )
        for sample in samples:
            _compare_module_sample(outcome, info, sample, training)
    return outcome


def _compare_module_sample(outcome: Outcome, info: Any, sample: Any, training: bool) -> None:
    build, forward = sample.constructor_input, sample.forward_input
    torch.manual_seed(3)
    kwargs = dict(build.kwargs)
    module = info.module_cls(*build.args, **kwargs).to(torch.float32).train(training)

    def run(move: Callable[[Any], Any], own: torch.nn.Module) -> dict:
        args, named = move((forward.args, forward.kwargs))
        inputs = _wanting_gradient((args, named)) + [p for p in own.parameters() if p.requires_grad]
        output = own(*args, **named)
        return {"result": output, "gradient": _gradients(output, inputs), "buffer": list(own.buffers())}

    outcome.compare(
        lambda: run(_Cloned(), copy.deepcopy(module)), lambda: run(bits.ToCuda(), copy.deepcopy(module).to("cuda"))
    )


# Optimizers


def optimizers() -> dict[str, Any]:
    from torch.testing._internal.common_optimizers import optim_db

    return {info.optim_cls.__name__: info for info in optim_db}


def compare_optimizer(info: Any) -> Outcome:
    outcome = Outcome()
    for sample in info.optim_inputs_func(device="cpu"):
        for way in _ways(info, sample.kwargs):
            outcome.compare(
                lambda: _train(info, sample.kwargs | way, "cpu"),
                lambda: _train(info, bits.ToCuda()(sample.kwargs | way), "cuda"),
            )
    return outcome


def _ways(info: Any, kwargs: dict) -> Iterator[dict]:
    """The implementations that both devices have. Left to itself, torch takes another one on CUDA."""
    yield {"foreach": False} if "foreach" in info.supported_impls else {}
    if "foreach" in info.supported_impls:
        yield {"foreach": True}
    if "fused" in info.supported_impls and not kwargs.get("differentiable"):
        yield {"fused": True}


def _train(info: Any, kwargs: dict, device: str) -> dict:
    draw = torch.Generator().manual_seed(2)
    sparse = "SparseAdam" in info.optim_cls.__name__
    matrices_only = getattr(info, "only_supports_2d_parameters", False)
    shapes = [(20, 6)] if sparse else [(6, 5), (5, 3)] if matrices_only else [(6, 5), (5,), (5, 3)]
    weights = [torch.nn.Parameter(torch.randn(s, generator=draw).to(device)) for s in shapes]
    optimizer = info.optim_cls(weights, **kwargs)
    x = torch.randn(4, 6, generator=draw).to(device)

    def loss() -> torch.Tensor:
        optimizer.zero_grad()
        if sparse:
            rows = torch.tensor([1, 4, 4, 7], device=device)
            y = torch.nn.functional.embedding(rows, weights[0], sparse=True) - x
        elif len(weights) == 2:
            y = torch.tanh(x @ weights[0]) @ weights[1]
        else:
            y = torch.tanh(x @ weights[0] + weights[1]) @ weights[2]
        value = y.pow(2).mean()
        value.backward()
        return value

    losses = []
    for _ in range(6):
        if info.step_requires_closure:
            losses.append(optimizer.step(loss))
        else:
            losses.append(loss())
            optimizer.step()
    return {"loss": losses, "weight": weights}


KINDS = {
    "operators": (operators, compare_operator),
    "modules": (modules, compare_module),
    "optimizers": (optimizers, compare_optimizer),
}


def main() -> None:
    kind, names = sys.argv[1], sys.argv[2:]
    catalogue, compare = KINDS[kind]
    entries = catalogue()
    if names == ["--list"]:
        print(json.dumps(list(entries)))
        return
    torch.set_num_threads(1)
    for name in names:
        print(json.dumps({"begin": name}), flush=True)
        begun = time.perf_counter()
        try:
            outcome = compare(entries[name])
            line = {
                "samples": outcome.samples,
                "refused_by_cpu": outcome.refused_by_cpu,
                "difference": outcome.difference,
            }
        except Exception as error:
            line = {
                "samples": 0,
                "refused_by_cpu": 0,
                "difference": f"measuring failed: {type(error).__name__}: {str(error)[:300]}",
            }
        print(json.dumps({"end": name, "seconds": round(time.perf_counter() - begun, 3)} | line), flush=True)


if __name__ == "__main__":
    main()
