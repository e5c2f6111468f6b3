"""These tests need a second environment with another torch: ``scripts/test versions`` makes it and runs them."""

from __future__ import annotations

import os

import pytest


@pytest.fixture(scope="session")
def other_python() -> str:
    """The interpreter of the second environment."""
    python = os.environ.get("HOCKET_OTHER_PYTHON", "")
    assert os.access(python, os.X_OK), f"HOCKET_OTHER_PYTHON={python!r} is no interpreter: run scripts/test versions"
    return python
