"""A policy of the user's own decides over real jobs; when it fails, fair goes on."""

from __future__ import annotations

import pathlib
from collections.abc import Callable

import pytest
from world import SMALL, World

YOUNGEST_FIRST = """
from hocket_policy import Job, Policy

class YoungestFirst(Policy):
    def before(self, a: Job, b: Job) -> bool:
        return a.id > b.id

    def reason(self, first: Job) -> str:
        print("printed by the policy")
        return f"job {first.id} is the youngest of them"
"""
FAILS_LATER = """
from hocket_policy import Policy

class FailsLater(Policy):
    left = 2

    def before(self, a, b):
        return False

    def granted(self, job):
        self.left -= 1
        1 / self.left
"""


def written(folder: pathlib.Path, text: str) -> str:
    file = folder / "my policy.py"
    file.write_text(text)
    return str(file)


def two_jobs(world: World, file: str, look: Callable[[], None] | None = None) -> None:
    """The policy decides from the first job's fifth step on; ``look`` is called in the second one's tenth."""
    first = world.job("train", "--name", "first", "--hold", "4", "--losses", world.losses("first"), *SMALL)
    first.expect("step 4")
    answer = world.hocket("policy", file)
    assert answer.returncode == 0, answer.stderr
    assert answer.stdout.startswith("policy my policy.py;")
    hold = ["--hold", "9"] if look else []
    second = world.job("train", "--name", "second", *hold, "--losses", world.losses("second"), *SMALL)
    world.until("second", "waits")
    first.go_on()
    if look:
        second.expect("step 9")
        look()
        second.go_on()
    for job in (first, second):
        job.finishes()


def test_it_decides_and_explains(world: World, alone: Callable[..., list[str]], tmp_path: pathlib.Path) -> None:
    two_jobs(world, written(tmp_path, YOUNGEST_FIRST))
    for name in ("first", "second"):
        assert world.losses(name).read_text().split() == alone("train", *SMALL)
    assert any("is the youngest of them" in turn["reason"] for turn in world.turns()), world.turns()
    assert "policy my policy.py decides (pid" in world.hocket("logs").stdout
    daemon = world.status()["daemon"]
    assert (daemon["policy"], daemon["policy_trouble"]) == ("my policy.py", "")


def test_when_it_fails_fair_goes_on_and_says_so(
    world: World, alone: Callable[..., list[str]], tmp_path: pathlib.Path
) -> None:
    def look() -> None:
        assert "my policy.py (has failed, fair decides: ZeroDivisionError" in world.hocket("status").stdout

    two_jobs(world, written(tmp_path, FAILS_LATER), look)
    for name in ("first", "second"):
        assert world.losses(name).read_text().split() == alone("train", *SMALL)
    said = world.hocket("logs").stdout
    assert "policy my policy.py: ZeroDivisionError: division by zero (my policy.py, line 12)" in said
    assert "fair decides" in said


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("class Mine(", "SyntaxError"),
        ("x = 1", "must have one class that derives from hocket_policy.Policy; it has none"),
        ("from hocket_policy import Policy\nclass Mine(Policy): pass", "NotImplementedError"),
        ("import nowhere", "No module named 'nowhere'"),
        (
            "from hocket_policy import Policy\nclass Mine(Policy):\n  def before(self, a, b): return a.step < b.step",
            "'<' not supported between instances of 'float' and 'NoneType' (my policy.py, line 3)",
        ),
    ],
)
def test_a_file_that_does_not_work_is_refused_with_its_line(
    world: World, tmp_path: pathlib.Path, text: str, says: str
) -> None:
    answer = world.hocket("policy", written(tmp_path, text))
    assert answer.returncode == 1
    assert says in answer.stderr


def test_a_file_that_is_not_there_is_refused(world: World) -> None:
    answer = world.hocket("policy", "./nowhere.py")
    assert answer.returncode == 2
    assert "there is no file" in answer.stderr
