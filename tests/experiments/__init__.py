"""Schedulers compared on public traces, in simulation; see README.md."""
