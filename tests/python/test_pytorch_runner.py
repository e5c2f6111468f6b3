"""scripts/pytorch-tests over a checkout of the test's own: what each end of a test becomes, and what is a surprise."""

from __future__ import annotations

import pathlib

import pytest

from tests.pytorch import __main__ as command
from tests.pytorch import contenders
from tests.pytorch.contenders import Outcome

TESTS = """
import os
import pytest

def test_first(): pass
def test_fails(): assert 1 == 2, "one is not two"
def test_skips(): pytest.skip("not here")
def test_ends_its_process(): os._exit(7)
@pytest.mark.parametrize("number", [1, 2])
def test_last(number): pass
"""


@pytest.fixture
def place(tmp_path: pathlib.Path) -> contenders.Place:
    tests, scratch = tmp_path / "test", tmp_path / "scratch"
    for folder in (tests, scratch):
        folder.mkdir()
    (tests / "test_cuda.py").write_text(TESTS)
    return contenders.Place(tests, scratch)


def test_each_test_has_its_outcome_also_after_one_that_ends_the_process(place: contenders.Place) -> None:
    found = contenders.Run(place, contenders.NATIVE, "test_cuda.py").run()
    words = {name.removeprefix("test_cuda.py::"): outcome.word for name, outcome in found.items()}
    assert words == {
        "test_first": "passed", "test_fails": "failed", "test_skips": "skipped", "test_ends_its_process": "killed",
        "test_last[1]": "passed", "test_last[2]": "passed",
    }  # fmt: skip
    assert "one is not two" in found["test_cuda.py::test_fails"].why
    assert "status 7" in found["test_cuda.py::test_ends_its_process"].why


def test_only_those_selected_run(place: contenders.Place) -> None:
    assert list(contenders.Run(place, contenders.NATIVE, "test_cuda.py", "first").run()) == ["test_cuda.py::test_first"]


def test_a_file_that_cannot_be_collected_is_an_error_with_its_words(place: contenders.Place) -> None:
    (place.tests / "test_cuda.py").write_text("import no_such_module\n")
    with pytest.raises(RuntimeError, match="no_such_module"):
        contenders.Run(place, contenders.NATIVE, "test_cuda.py").run()


PASSED, FAILED = Outcome("passed"), Outcome("failed", "an error")


@pytest.mark.parametrize(
    ("native", "ours", "listed", "said"),
    [
        ({"a": PASSED}, {"a": PASSED}, {}, []),
        ({"a": PASSED}, {"a": FAILED}, {}, ["a: failed: an error"]),
        ({"a": PASSED}, {}, {}, ["a: not run: "]),
        ({"a": PASSED}, {"a": FAILED}, {"a": "why"}, []),
        ({"a[1]": PASSED, "a[2]": PASSED}, {"a[1]": FAILED, "a[2]": PASSED}, {"a": "why"}, []),
        ({"a": PASSED}, {"a": PASSED}, {"a": "why"}, ["a is listed as a difference, and passes"]),
        ({"a": FAILED}, {"a": FAILED}, {"a": "why"}, []),
        ({"a": FAILED}, {"a": FAILED}, {}, []),
    ],
)
def test_what_is_not_as_listed_is_said(
    native: dict[str, Outcome], ours: dict[str, Outcome], listed: dict[str, str], said: list[str]
) -> None:
    assert command.surprises(native, ours, listed) == said
