"""Tests of PyTorch's that pass with its allocator and not with Hocket's, each with its reason.

docs/pytorch-tests.md shows this list. A test that is not here and differs, or is here and passes, fails the run.
"""

from __future__ import annotations

# "file::class::test", without a parametrized test's brackets: why.
HOCKET: dict[str, str] = {
    "test_cuda.py::TestCudaMallocAsync::test_memory_plots_free_segment_stack": (
        "the recorded history has no entries of segments: chunks come and go under addresses that stay"
    ),
}
NATIVE_OVER_CHUNKS: dict[str, str] = {}
