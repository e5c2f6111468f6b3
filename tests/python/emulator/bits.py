"""The same tensors on the CPU and on the emulated GPU, and whether two results are the same bits."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._pytree import tree_flatten, tree_map


class ToCuda:
    """Moves arguments to CUDA with their exact layout: whole storages travel, views and overlaps stay."""

    def __init__(self) -> None:
        self._storages: dict[int, torch.Tensor] = {}

    def __call__(self, value: Any) -> Any:
        return tree_map(self._one, value)

    def _one(self, value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return self._tensor(value).requires_grad_(value.requires_grad)
        if isinstance(value, torch.device) or value == "cpu":
            return torch.device("cuda") if isinstance(value, torch.device) else "cuda"
        return value

    def _tensor(self, tensor: torch.Tensor) -> torch.Tensor:
        source = tensor.detach()
        if source.is_cuda:
            return source
        if source.layout != torch.strided or source.is_nested or source.is_conj() or source.is_neg():
            return source.to("cuda")
        whole = self._whole_storage(source)
        return whole.as_strided(source.size(), source.stride(), source.storage_offset()).detach()

    def _whole_storage(self, tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        key = storage.data_ptr()
        if key == 0 or key not in self._storages:
            count = storage.nbytes() // tensor.element_size()
            flat = torch.empty(0, dtype=tensor.dtype).set_(storage, 0, (count,), (1,))
            self._storages[key] = flat.to("cuda")
        storage = self._storages[key]
        return storage.view(tensor.dtype) if storage.dtype != tensor.dtype else storage


def tensors_of(value: Any) -> list[Any]:
    return tree_flatten(value)[0]


def _plain(tensor: torch.Tensor) -> torch.Tensor:
    tensor = tensor.detach()
    if tensor.is_nested:
        tensor = torch.cat([part.flatten() for part in tensor.unbind()])
    if tensor.layout != torch.strided:
        tensor = tensor.to_dense()
    if tensor.is_quantized:
        tensor = tensor.int_repr()
    return tensor.to("cpu").resolve_conj().resolve_neg().contiguous()


def _bytes(tensor: torch.Tensor) -> torch.Tensor:
    dense = torch.empty(tensor.numel(), dtype=tensor.dtype).copy_(tensor.reshape(-1))
    return dense.view(torch.uint8) if dense.numel() else torch.empty(0, dtype=torch.uint8)


def difference(cpu: Any, cuda: Any, where: str, values: bool = True, on_cuda: bool = False) -> str | None:
    """None if the two results are the same bits, else a sentence.

    `values` False: sizes and types only. `on_cuda`: every tensor of the second must be there.
    """
    left, right = tensors_of(cpu), tensors_of(cuda)
    if len(left) != len(right):
        return f"{where}: {len(left)} results on the CPU, {len(right)} on CUDA"
    for index, (a, b) in enumerate(zip(left, right, strict=True)):
        if not isinstance(a, torch.Tensor):
            if isinstance(a, (int, float, bool, str)) and a != b and a == a:
                return f"{where} {index}: {a!r} on the CPU, {b!r} on CUDA"
            continue
        if on_cuda and not b.is_cuda:
            return f"{where} {index}: not on CUDA but on {b.device}"
        if a.dtype != b.dtype or a.shape != b.shape or a.layout != b.layout:
            cpu, cuda = (f"{tuple(t.shape)} {t.dtype} {t.layout}" for t in (a, b))
            return f"{where} {index}: {cpu} on the CPU, {cuda} on CUDA"
        if not values:
            continue
        x, y = _plain(a), _plain(b)
        if not torch.equal(_bytes(x), _bytes(y)):
            same_nan = torch.equal(x, y) or (x.is_floating_point() and torch.equal(x.nan_to_num(), y.nan_to_num()))
            how = "differ in the sign of zero or in a NaN's bits" if same_nan else _how_much(x, y)
            return f"{where} {index}: {how}"
    return None


def _how_much(x: torch.Tensor, y: torch.Tensor) -> str:
    wrong = (x != y).sum().item()
    largest = (x.to(torch.complex128) - y.to(torch.complex128)).abs().nan_to_num().max().item()
    return f"{wrong} of {x.numel()} values differ, by at most {largest:.3g}"
