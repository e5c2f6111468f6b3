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


def two_jobs(world: World, file: str, look: Callable[[], None] | None = None, policy: str = "my policy.py") -> None:
    """The policy decides from the first job's fifth step on, and gives the turn to the second one and back. ``look``
    is called while both go on."""
    how = (*SMALL, "--more")
    first = world.job("train", "--name", "first", "--hold", "4", "--losses", world.losses("first"), *how)
    first.expect("step 4")
    answer = world.hocket("policy", file)
    assert answer.returncode == 0, answer.stderr
    assert answer.stdout.startswith(f"policy {policy};")
    patience = world.patience()
    while f"policy {policy} decides (pid" not in world.hocket("logs").stdout:  # it has to start
        patience.look(f"{policy} decides")
        world.status()  # which looks whether it has
    second = world.job("train", "--name", "second", "--hold", "0", "--losses", world.losses("second"), *how)
    world.until("second", "waits")
    first.go_on()
    second.expect("step 0")
    world.until("first", "waits")
    second.go_on()
    if look:
        look()
    for job in (first, second):
        job.go_on()  # to its end
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
        patience = world.patience()
        while "my policy.py (has failed" not in (said := world.hocket("status").stdout):
            patience.look(f"a policy that has failed: {said}")
        assert "my policy.py (has failed, fair decides: ZeroDivisionError" in said

    two_jobs(world, written(tmp_path, FAILS_LATER), look)
    for name in ("first", "second"):
        assert world.losses(name).read_text().split() == alone("train", *SMALL)
    said = world.hocket("logs").stdout
    assert "policy my policy.py: ZeroDivisionError: division by zero (my policy.py, line 12)" in said
    assert "fair decides" in said


YOUNGEST_FIRST_IN_CPP = """
#include "hocket_policy.h"

struct YoungestFirst : hocket_policy::Policy {
  bool Before(const hocket_policy::Job& a, const hocket_policy::Job& b) override { return a.id > b.id; }
  std::string Reason(const hocket_policy::Job& first) override {
    return "job " + std::to_string(first.id) + " is the youngest of them";
  }
  // It ends by itself, as a mistake would end it, once it has seen enough.
  void Charge(const hocket_policy::Job&, double, bool contended) override {
    if (contended && ++charged == %s) throw std::runtime_error("has seen enough");
  }
  int charged = 0;
};
HOCKET_POLICY(YoungestFirst)
"""


@pytest.fixture
def in_cpp(tmp_path: pathlib.Path, world: World) -> Callable[[str], str]:
    world.environment["XDG_CACHE_HOME"] = str(tmp_path / "cache")

    def write(text: str) -> str:
        file = tmp_path / "youngest.cc"
        file.write_text(text)
        world.hocket("policy", str(file))  # compiles it; nobody is there yet to whom it could be handed
        return str(file)

    return write


def test_a_policy_in_cpp_decides(world: World, alone: Callable[..., list[str]], in_cpp: Callable[[str], str]) -> None:
    two_jobs(world, in_cpp(YOUNGEST_FIRST_IN_CPP % -1), policy="youngest")
    for name in ("first", "second"):
        assert world.losses(name).read_text().split() == alone("train", *SMALL)
    assert any("is the youngest of them" in turn["reason"] for turn in world.turns()), world.turns()


def test_an_exception_in_a_policy_in_cpp_hands_over_to_fair(world: World, in_cpp: Callable[[str], str]) -> None:
    two_jobs(world, in_cpp(YOUNGEST_FIRST_IN_CPP % 2), policy="youngest")
    said = world.hocket("logs").stdout
    assert "policy youngest: has seen enough" in said and "fair decides" in said


def test_a_policy_in_cpp_is_compiled_again_where_what_it_is_made_of_is_other(
    world: World, tmp_path: pathlib.Path
) -> None:
    """Seen from its name alone, it would be the old one."""
    world.environment["XDG_CACHE_HOME"] = str(tmp_path / "cache")
    (tmp_path / "order.h").write_text("#define ORDER 1\n")
    file = tmp_path / "mine.cc"
    file.write_text('#include "order.h"\nint main() { return ORDER; }\n')

    def compiled(**variables: str) -> int:
        world.hocket("policy", str(file), **variables)
        return len(list((tmp_path / "cache/hocket/policies").glob("*/mine")))

    assert [compiled(), compiled()] == [1, 1]
    (tmp_path / "order.h").write_text("#define ORDER 2\n")
    assert [compiled(), compiled()] == [2, 2]
    assert compiled(CXX="c++ -g0") == 3
    other = tmp_path / "other"
    other.write_text('#!/bin/sh\n[ "$1" = --version ] && echo 1 && exit\nexec c++ "$@"\n')
    other.chmod(0o755)
    assert compiled(CXX=str(other)) == 4
    other.write_text(other.read_text().replace("echo 1", "echo 2"))
    assert [compiled(CXX=str(other)), compiled(CXX=str(other))] == [5, 5]


def test_a_policy_that_does_not_compile_is_refused_with_what_the_compiler_says(
    world: World, in_cpp: Callable[[str], str]
) -> None:
    refused = world.hocket("policy", in_cpp("#include <hocket_policy.h>\nint main() { return nothing; }\n"))
    assert refused.returncode == 1
    assert "does not compile" in refused.stderr and "nothing" in refused.stderr.split("):")[1]
    assert world.hocket("policy", in_cpp("int x;"), CXX="/no/such/compiler").stderr.count("there is no /no/such") == 1


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
