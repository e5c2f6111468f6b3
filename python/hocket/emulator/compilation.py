"""``torch.compile`` on the emulated GPU: graphs on CUDA run through ATen.

Inductor would make Triton kernels of them, which need a real GPU. What is captured, guarded and specialised stays as
it is; graphs without CUDA tensors are compiled as ever.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from hocket.emulator import _say


def install() -> None:
    import torch

    wrapper = torch._TorchCompileInductorWrapper
    if not hasattr(wrapper.__call__, "_hocket_original"):
        wrapper.__call__ = _through_aten(wrapper.__call__)


def _through_aten(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def compile_graph(self: Any, graph: Any, inputs: Any, **options: Any) -> Any:
        if not _uses_cuda(graph, inputs):
            return original(self, graph, inputs, **options)
        _say.once("compile", "torch.compile on the emulated GPU runs its graphs through ATen; Triton needs a real one.")
        return graph.forward

    compile_graph._hocket_original = original  # type: ignore[attr-defined]
    return compile_graph


def _uses_cuda(graph: Any, inputs: Any) -> bool:
    """Are tensors on CUDA given to the graph, owned by it or made in it?"""
    import torch

    for node in graph.graph.nodes:
        device = node.kwargs.get("device")
        made = device is not None and torch.device(device).type == "cuda"
        if made or _on_cuda(node.meta.get("example_value")):
            return True
    owned = [*graph.parameters(), *graph.buffers()]
    return any(_on_cuda(value) for value in [*inputs, *owned])


def _on_cuda(value: Any) -> bool:
    return getattr(getattr(value, "device", None), "type", None) == "cuda"
