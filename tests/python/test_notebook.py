"""A notebook's cells, in an IPython of this process; what moves meanwhile is in tests/e2e/test_notebooks.py."""

from __future__ import annotations

import pathlib
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hocket import notebook
from IPython.core.error import InputRejected
from IPython.core.interactiveshell import InteractiveShell


class Recorded:
    """A job that notes what it is told."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.comes_back: Callable[[], None] = lambda: None

    def begin_away(self) -> None:
        self.told.append("away")

    def end_away(self) -> None:
        self.comes_back()
        self.told.append("back")

    def end_steps(self) -> None:
        self.told.append("steps end")

    def expect_strays(self, expected: bool) -> None:
        pass


@pytest.fixture
def shell(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[InteractiveShell]:
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    yield InteractiveShell.instance()
    InteractiveShell.clear_instance()


@pytest.fixture
def job(shell: InteractiveShell) -> Recorded:
    job = Recorded()
    notebook.watch(job)
    shell.user_ns["job"] = job
    return job


def test_a_cell_runs_when_its_memory_is_back(shell: InteractiveShell, job: Recorded) -> None:
    shell.run_cell("job.told.append('cell')", silent=True)
    assert job.told == ["back", "cell", "steps end", "away"]


def test_a_cell_that_raises_is_over_all_the_same(shell: InteractiveShell, job: Recorded) -> None:
    for cell in ("1 / 0", "this is no Python", "%magic_that_is_none"):
        job.told.clear()
        shell.run_cell(cell)
        assert job.told[-2:] == ["steps end", "away"], cell


@pytest.mark.parametrize("inner", ["job.told.append('inner')", " ", "no Python"], ids=["code", "blank", "an error"])
def test_a_cell_that_another_one_runs_ends_nothing(shell: InteractiveShell, job: Recorded, inner: str) -> None:
    shell.run_cell(f"get_ipython().run_cell({inner!r}); job.told.append('outer')", silent=True)
    assert job.told[0] == "back"
    assert job.told[-3:] == ["outer", "steps end", "away"]
    assert job.told.count("away") == 1


def test_a_cell_whose_wait_is_interrupted_does_not_run(shell: InteractiveShell, job: Recorded) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    job.comes_back = interrupt
    assert isinstance(shell.run_cell("job.told.append('cell')").error_before_exec, InputRejected)
    assert job.told == ["steps end", "away"]


def test_a_cell_whose_memory_cannot_come_back_does_not_run_and_says_why(
    shell: InteractiveShell, job: Recorded, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail() -> None:
        raise RuntimeError("the device is gone")

    job.comes_back = fail
    for _ in range(2):  # nor does the next one
        assert not shell.run_cell("job.told.append('cell')").success
        assert "this cell has not run: the device is gone" in capsys.readouterr().out
    assert "cell" not in job.told


def test_a_program_without_ipython_has_no_cells(monkeypatch: pytest.MonkeyPatch) -> None:
    job: Any = object()
    notebook.watch(job)  # IPython is imported here, and no shell is there
    monkeypatch.delitem(sys.modules, "IPython")
    notebook.watch(job)


@pytest.mark.parametrize(
    ("session", "name"),
    [
        ("/home/ann/My Notes.ipynb", "My Notes"),
        ("é" * 80 + ".ipynb", "é" * 64),
        ("/home/ann/console-1-2b5f", ""),
        ("a\x1bb.ipynb", ""),
        ("", ""),
    ],
)
def test_a_job_is_called_as_its_notebook(monkeypatch: pytest.MonkeyPatch, session: str, name: str) -> None:
    monkeypatch.setenv("JPY_SESSION_NAME", session)
    monkeypatch.delitem(sys.modules, "ipykernel", raising=False)
    assert notebook.name() == ""  # a program that a cell has started
    monkeypatch.setitem(sys.modules, "ipykernel", sys)
    assert notebook.name() == name
