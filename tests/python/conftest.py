"""Tests of the package over a fake ``_native``: no coordinator, no device, no compiled part."""

from __future__ import annotations

import os
import pathlib
import sys

import pytest
import torch

sys.path.insert(0, str(pathlib.Path(__file__).parent))
sys.path.insert(1, str(pathlib.Path(__file__).parents[2] / "python"))

# Nobody's own config file.
os.environ["HOCKET_CONFIG"] = os.devnull

from fakes import FakeNative, fake_control

sys.modules["hocket._native"] = FakeNative(torch.__version__)
sys.modules["hocket._control"] = fake_control(torch.__version__)


@pytest.fixture
def native(monkeypatch: pytest.MonkeyPatch) -> FakeNative:
    """A process that has just imported hocket and not joined."""
    from hocket import _job

    fake = FakeNative(torch.__version__)
    monkeypatch.setattr(_job, "_native", fake)
    monkeypatch.setattr(_job, "_options", _job.Options())
    monkeypatch.setattr(_job, "_left_in", None)
    return fake
