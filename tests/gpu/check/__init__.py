"""The run of scripts/gpu-check."""
