"""What can go wrong, one exception per thing the user can do about it.

A message says what was tried, what stood in the way, and what to do, with numbers.
"""

from __future__ import annotations


class HocketError(RuntimeError):
    """Base of all errors that Hocket raises."""


class CoordinatorUnavailable(HocketError):
    """No coordinator runs there, or none can be started. See ``hocket doctor``."""


class BuiltForAnotherTorch(HocketError, ImportError):
    """The installed torch is not the one Hocket was compiled against: build Hocket again."""


class BrokenConfig(HocketError):
    """Hocket's config file is wrong: correct the lines that are named. See ``hocket config check``."""


class NotBuilt(HocketError, ImportError):
    """A part of Hocket is missing from the installation: install it again."""
