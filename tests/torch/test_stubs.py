"""The types that are written down are those of the modules."""

from __future__ import annotations

import ast
import pathlib
import subprocess
import sys

import pytest

PACKAGE = pathlib.Path(__file__).parents[2] / "python" / "hocket"


def declared(stub: pathlib.Path) -> set[str]:
    tree = ast.parse(stub.read_text(encoding="utf-8"))
    functions = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    return functions | {node.target.id for node in tree.body if isinstance(node, ast.AnnAssign)}  # type: ignore[union-attr]


@pytest.mark.parametrize("module", ["_native", "_control"])
def test_stub_and_module_have_the_same_names(module: str) -> None:
    code = f"import torch\nfrom hocket import {module} as m\nprint(*(n for n in dir(m) if not n.startswith('__')))"
    names = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split()
    assert set(names) == declared(PACKAGE / f"{module}.pyi")
