"""Hocket in an environment whose torch is not the one that it was compiled against."""

from __future__ import annotations

import pathlib
import sys

import pytest
from world import World, hocket_command

INSTALLED = "2.99.0"
# Stands before everything that a Python of this environment does: its torch then says that it is another one.
ANOTHER_TORCH = """
import importlib.util, pathlib, sys

class AnotherTorch:
    def find_spec(self, name, path=None, target=None):
        if name == "torch.version":
            return importlib.util.spec_from_file_location(name, pathlib.Path(__file__).with_name("version.py"))

sys.meta_path.insert(0, AnotherTorch())
"""
VERSION = f"""
__version__ = {INSTALLED!r}
debug, cuda, git_version, hip, rocm, xpu = False, "13.2", "none", None, None, None
"""
REBUILD = "In Hocket's source folder: pip install --no-build-isolation --force-reinstall --no-deps ."


@pytest.fixture
def another_torch(tmp_path: pathlib.Path) -> str:
    """For PYTHONPATH."""
    (tmp_path / "sitecustomize.py").write_text(ANOTHER_TORCH)
    (tmp_path / "version.py").write_text(VERSION)
    return str(tmp_path)


def built_for() -> str:
    import torch

    return torch.__version__


def test_import_with_another_torch_ends_with_how_to_rebuild(world: World, another_torch: str) -> None:
    program = world.start(sys.executable, "-c", "import hocket; print('imported')", PYTHONPATH=another_torch)
    assert program.wait() == 1, program.story()
    assert program.lines == []
    assert program.errors[-1] == (
        f"hocket.errors.BuiltForAnotherTorch: Hocket was built for torch {built_for()}, and this environment has "
        f"torch {INSTALLED}. Build it again for this one. {REBUILD}"
    )


def test_run_with_another_torch_says_one_sentence_and_goes_on(world: World, another_torch: str) -> None:
    program = "import torch; print(torch.ones(4, device='cuda').sum())"
    run = world.start(*hocket_command(), "run", "--", sys.executable, "-c", program, PYTHONPATH=another_torch)
    run.finishes()
    assert run.lines == ["tensor(4., device='cuda:0')"]
    assert run.errors == [
        f"hocket: Hocket was built for torch {built_for()}, and this environment has torch {INSTALLED}. "
        f"Build it again for this one. {REBUILD}",
        "  The program goes on without it.",
    ]
