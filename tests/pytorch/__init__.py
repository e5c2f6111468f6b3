"""PyTorch's own tests on the emulated GPU, with its allocator and with Hocket's (``scripts/pytorch-tests``)."""
