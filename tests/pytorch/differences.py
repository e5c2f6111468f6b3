"""Tests of PyTorch's that pass with its allocator and not with Hocket's, each with its reason.

docs/pytorch-tests.md shows this list. A test that is not here and differs, or is here and passes, fails the run.
"""

from __future__ import annotations

# "file::class::test", without a parametrized test's brackets: why.
_SEGMENTS = "counts segments of PyTorch's sizes; Hocket's are runs of chunks, of whatever stream"
HOCKET: dict[str, str] = {
    "test_cuda.py::TestCuda::test_cuda_graph_allocator_propagates_stream": _SEGMENTS,
    "test_cuda.py::TestCuda::test_graph_memory_stats_and_use_result_after_destroy_graph": _SEGMENTS,
    "test_cuda.py::TestBlockStateAbsorption::test_allocate_in_thread_to_pool": _SEGMENTS,
    "test_cuda.py::TestCudaAllocator::test_allocator_backend": (
        "asks for another backend (cudaMallocAsync), which has no effect under Hocket, as a warning says"
    ),
    "test_cuda.py::TestMemPool::test_mempool_no_split": (
        "MemPool(no_split=True) is refused: Hocket gives a pool's memory out in blocks of the size asked for"
    ),
}
NATIVE_OVER_CHUNKS: dict[str, str] = {}
