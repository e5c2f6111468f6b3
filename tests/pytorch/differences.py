"""Tests of PyTorch's that pass with its allocator and not with Hocket's, each with its reason.

docs/pytorch-tests.md shows this list. A test that is not here and differs, or is here and passes, fails the run.
"""

from __future__ import annotations

# "file::class::test", without a parametrized test's brackets: why.
HOCKET: dict[str, str] = {}
NATIVE_OVER_CHUNKS: dict[str, str] = {}
