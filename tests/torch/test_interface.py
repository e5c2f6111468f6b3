"""Whatever PyTorch can ask of its current allocator, both of Hocket's classes answer themselves."""

from __future__ import annotations

import pathlib
import re

import torch

TORCH = pathlib.Path(torch.__file__).parent / "include" / "c10"
OURS = pathlib.Path(__file__).parents[2] / "csrc" / "torch"

# What the base class answers as it should, and why.
OF_THE_BASE = {
    "is_simple_data_ptr": "true of all data pointers that both make",
    "copy_data": "final in the base class: a copy on the device",
}
# The same, of Hocket's own allocator alone.
OF_ITS_OWN = {
    "init": "notes that CUDA has started; a device is put to use when it is used",
    "initialized": "whether init() was called",
    "markCaptureBegin": "nothing to note: BeginsCapture() asks the stream itself",
    "markCaptureEnd": "the same",
}


def declared(header: str, name: str) -> str:
    """The body of class or struct ``name``."""
    return re.split(rf"\b(?:class|struct)\b[^;{{]*\b{name}\b[^;{{]*{{", header, maxsplit=1)[1].split("\n};")[0]


def virtuals() -> set[str]:
    found: set[str] = set()
    for file, name in (
        ("core/Allocator.h", "Allocator"),
        ("core/CachingDeviceAllocator.h", "DeviceAllocator"),
        ("cuda/CUDACachingAllocator.h", "CUDAAllocator"),
    ):
        body = re.sub(r"//[^\n]*", "", declared((TORCH / file).read_text(), name))
        found |= set(re.findall(r"\bvirtual\b[^;{()]*?\b(\w+)\(", body))
    return found - {"Allocator", "DeviceAllocator", "CUDAAllocator"}  # their destructors


def answered(file: str, name: str) -> set[str]:
    body = re.sub(r"//[^\n]*", "", declared((OURS / file).read_text(), name)).split(" private:\n  ")[0]
    return set(re.findall(r"\b(\w+)\(", body))


def test_every_method_that_pytorch_may_call_has_an_answer_of_ours() -> None:
    asked = virtuals()
    assert {"allocate", "emptyCache", "recordAnnotation", "memcpyAsync"} <= asked, "the headers are read wrongly"
    for file, name, base in (
        ("cuda_allocator.h", "CudaAllocator", OF_THE_BASE | OF_ITS_OWN),
        ("native_allocator.h", "NativeAllocator", OF_THE_BASE),
    ):
        assert asked - answered(file, name) - base.keys() == set(), f"{name} leaves these to PyTorch's base class"
