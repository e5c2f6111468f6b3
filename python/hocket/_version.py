"""The version, from the file that the build reads too."""

from __future__ import annotations

import pathlib

__version__ = pathlib.Path(__file__).with_name("VERSION").read_text().strip()
