"""Tests of what needs a GPU; they run on the emulated one too. See README.md."""
