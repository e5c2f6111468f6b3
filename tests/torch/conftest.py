"""Tests of Hocket as PyTorch's allocator. Those in on_device run inside one process on the emulated GPU."""

collect_ignore = ["on_device"]
