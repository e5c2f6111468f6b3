"""Compares operators, modules or optimizers on the CPU and on the emulated GPU: one JSON line each.

usage: operator_worker.py {operators|modules|optimizers} [--moved] NAME...     (names as `--list` prints them)

`--moved`: as a job of Hocket's, installed, for which each forward, backward and training step is a step before which
all its memory has been to the host and back. Each line says how many bytes came back.

A line {"begin": NAME} comes first, so that whoever reads knows which one killed the process. Nothing is left out
silently: samples that the CPU itself refuses, and those whose bits the CPU does not repeat, are counted and said.
"""

from __future__ import annotations

import collections
import contextlib
import copy
import json
import os
import pathlib
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import bits
import torch

MOVED = "--moved" in sys.argv
if MOVED:
    sys.argv.remove("--moved")
    os.environ.setdefault("HOCKET_FORCE_SPILL", "1")
else:
    sys.path.insert(0, str(pathlib.Path(__file__).parents[3] / "python"))
import _hocket_start  # noqa: E402

warnings.filterwarnings("ignore")

# Their values are whatever the memory held.
UNINITIALISED = {"empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided"}

# As on a GPU, their index tensors are on the CPU.
INDICES_ON_CPU = {"tensor_split"}


COMPRESSED = {torch.sparse_csr, torch.sparse_csc, torch.sparse_bsr, torch.sparse_bsc}

# Compiled for a GPU at run time; op_db gives them types on the CPU and keeps them off it by decorators.
ONLY_CUDA = "jiterator_"

# An operator without float32 is compared in the first of these that both devices have.
OTHER_TYPES = (torch.int64, torch.bool, torch.complex64, torch.float64, torch.bfloat16, torch.float16, torch.uint8)


# Of a sample that differs, on the CPU alone.
REPETITIONS = 20


class Outcome:
    """What came of one entry's samples.

    `samples`: compared. `refused_by_cpu`: the CPU's own errors and how often; nothing could be compared.
    `unsteady`: samples that differ, and whose bits the CPU does not give again either.
    """

    def __init__(self) -> None:
        self.samples = 0
        self.unsteady = 0
        self.refused_by_cpu: collections.Counter[str] = collections.Counter()
        self.difference: str | None = None

    @property
    def seen(self) -> int:
        return self.samples + self.refused_by_cpu.total()

    def compare(self, on_cpu: Callable[[], Any], on_cuda: Callable[[], Any], values: bool = True) -> None:
        torch.manual_seed(7)
        try:
            expected = on_cpu()
        except Exception as error:
            self.refused_by_cpu[_in_words(error)] += 1
            return
        self.samples += 1
        torch.manual_seed(7)
        try:
            difference = self._difference(expected, on_cuda(), values)
        except Exception as error:
            difference = _in_words(error)
        if difference is None:
            return
        if not self._repeats(on_cpu, expected):
            self.unsteady += 1
        elif self.difference is None:
            self.difference = f"sample {self.seen - 1}: {difference}"

    def line(self) -> dict[str, Any]:
        return {
            "samples": self.samples,
            "refused_by_cpu": dict(self.refused_by_cpu),
            "unsteady": self.unsteady,
            "difference": self.difference or (None if self.samples else "no sample was compared"),
        }

    @staticmethod
    def _difference(expected: dict, got: dict, values: bool) -> str | None:
        for part in expected:
            if found := bits.difference(expected[part], got[part], part, values):
                return found
        return None

    @staticmethod
    def _repeats(on_cpu: Callable[[], Any], expected: dict) -> bool:
        """Does the CPU give its own bits each time, wherever in memory its operands lie?"""
        in_the_way = []
        for repetition in range(REPETITIONS):
            in_the_way.append(torch.empty(64 * repetition + 1))
            torch.manual_seed(7)
            again = on_cpu()
            if any(_keys(expected[part]) != _keys(again[part]) for part in expected):
                return False
        return True


def _keys(value: Any) -> str:
    return repr(torch.utils._pytree.tree_map(_key, value))


def _in_words(error: Exception) -> str:
    lines = str(error).strip().splitlines() or [""]
    return f"{type(error).__name__}: {lines[0][:300]}"


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


def step() -> contextlib.AbstractContextManager[Any]:
    """What is computed in it is computed with memory that has been away, if memory is moved."""
    if not MOVED:
        return contextlib.nullcontext()
    import hocket

    return hocket.step()


def restored() -> int:
    """Bytes that have come back from the host so far."""
    if not MOVED:
        return 0
    from hocket import _native

    return sum(held["restored_total"] for held in _native.holdings())


# Operators


def operators() -> dict[str, Any]:
    from torch.testing._internal.common_methods_invocations import op_db

    both = [op for op in op_db if _type_of(op) and not op.name.startswith(ONLY_CUDA)]
    return {f"{op.name}.{op.variant_test_name}" if op.variant_test_name else op.name: op for op in both}


def _type_of(op: Any) -> torch.dtype | None:
    """The type in which the operator is compared; None where the devices have none in common."""
    both = op.supported_dtypes("cpu") & op.supported_dtypes("cuda")
    return next((t for t in (torch.float32, *OTHER_TYPES) if t in both), None)


def compare_operator(op: Any) -> Outcome:
    outcome = Outcome()
    dtype = _type_of(op)
    differentiable = op.supports_autograd and dtype.is_floating_point
    torch.manual_seed(5)
    for sample in op.sample_inputs("cpu", dtype, requires_grad=differentiable):
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
        leaves = torch.utils._pytree.tree_map(self._leaf, value)
        # Compressed tensors have no storage that deepcopy could look at.
        compressed = [t for t in bits.tensors_of(leaves) if isinstance(t, torch.Tensor) and t.layout in COMPRESSED]
        return copy.deepcopy(leaves, {id(t): t.detach().clone().requires_grad_(t.requires_grad) for t in compressed})

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
        with step():
            output = own(*args, **named)
        with step():
            gradients = _gradients(output, inputs)
        return {"result": output, "gradient": gradients, "buffer": list(own.buffers())}

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
    both_fused = {"cpu", "cuda"} <= set(info.supports_fused_on)
    if "fused" in info.supported_impls and both_fused and not kwargs.get("differentiable"):
        yield {"fused": True}


def _train(info: Any, kwargs: dict, device: str) -> dict:
    draw = torch.Generator().manual_seed(2)
    sparse = "SparseAdam" in info.optim_cls.__name__
    matrices_only = info.optim_cls.__name__ == "Muon"
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
            with step():
                losses.append(optimizer.step(loss))
        else:
            with step():
                losses.append(loss())
            with step():
                optimizer.step()
    return {"loss": losses, "weight": weights}


KINDS = {
    "operators": (operators, compare_operator),
    "modules": (modules, compare_module),
    "optimizers": (optimizers, compare_optimizer),
}


def main() -> None:
    _hocket_start.imported_by_program = False
    from hocket import emulator

    emulator.activate()
    if MOVED:
        import hocket

        hocket.join(name="databases")
    kind, names = sys.argv[1], sys.argv[2:]
    catalogue, compare = KINDS[kind]
    entries = catalogue()
    if names == ["--list"]:
        print(json.dumps(list(entries)))
        return
    torch.set_num_threads(1)
    for name in names:
        print(json.dumps({"begin": name}), flush=True)
        begun, before = time.perf_counter(), restored()
        try:
            line = compare(entries[name]).line()
        except Exception as error:
            line = {**Outcome().line(), "difference": f"measuring failed: {_in_words(error)}"}
        facts = {"end": name, "seconds": round(time.perf_counter() - begun, 3), "restored": restored() - before}
        print(json.dumps(facts | line), flush=True)


if __name__ == "__main__":
    main()
