"""Where CMake finds Hocket: for C++ programs that train with LibTorch."""

from __future__ import annotations

from pathlib import Path


def cmake_prefix() -> str:
    """The folder for CMAKE_PREFIX_PATH, so that ``find_package(Hocket)`` finds this installation."""
    return str(Path(__file__).resolve().parent)
