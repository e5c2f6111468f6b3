"""A policy of the user's own decides over real jobs; when it fails, fair goes on."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
from collections.abc import Callable

import pytest
from world import PATIENCE, SMALL, World

OWN = pathlib.Path(__file__).parents[2] / "coordinator/own/README.md"
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

# Not with the jobs on which `hocket policy` tries it: those have been served.
NOT_TODAY = """
from hocket_policy import Policy

class NotToday(Policy):
    def asked(self, job):
        if job.served == 0: raise ValueError("not today")

    def before(self, a, b):
        return False
"""


@pytest.fixture(autouse=True)
def who_answers_has_time(world: World) -> None:
    """A machine that stands still for a while gives no policy up."""
    world.environment["HOCKET_POLICY_PATIENCE_SECONDS"] = str(PATIENCE)


def written(folder: pathlib.Path, text: str) -> str:
    file = folder / "my policy.py"
    file.write_text(text)
    return str(file)


def pid_of(world: World, policy: str) -> int | None:
    """Of the policy's process, once it decides."""
    found = re.search(rf"policy {re.escape(policy)} decides \(pid (\d+)\)", world.hocket("logs").stdout)
    return int(found[1]) if found else None


def until_it_decides(world: World, file: str, policy: str) -> None:
    answer = world.hocket("policy", file)
    assert answer.returncode == 0, answer.stderr
    assert answer.stdout.startswith(f"policy {policy};")
    patience = world.patience()
    while pid_of(world, policy) is None:  # it has to start
        patience.look(f"{policy} decides")
        world.status()  # which looks whether it has


def until_said(world: World, words: str) -> None:
    """Looks until the coordinator's log has them: what a policy does by itself is heard when somebody looks."""
    patience = world.patience()
    while words not in (said := world.hocket("logs").stdout):
        patience.look(f"{words}: {said}")
        world.status()


def two_jobs(world: World, file: str, look: Callable[[], None] | None = None, policy: str = "my policy.py") -> None:
    """The policy decides from the first job's fifth step on, and gives the turn to the second one and back. ``look``
    is called while both go on."""
    how = (*SMALL, "--more")
    first = world.job("train", "--name", "first", "--hold", "4", "--losses", world.losses("first"), *how)
    first.expect("step 4")
    until_it_decides(world, file, policy)
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
    why = "ZeroDivisionError: division by zero (my policy.py, line 12)"
    failed = f"policy my policy.py: {why}. Now fair decides; it is tried again in 1s"
    two_jobs(world, written(tmp_path, FAILS_LATER), lambda: until_said(world, failed))
    for name in ("first", "second"):
        assert world.losses(name).read_text().split() == alone("train", *SMALL)


def test_one_that_is_corrected_comes_back_by_itself(world: World, tmp_path: pathlib.Path) -> None:
    """Nobody sets it again. Until somebody is to be chosen it stays as it is, so this scene has time to look."""
    file = written(tmp_path, NOT_TODAY)
    how = (*SMALL, "--more")
    first = world.job("train", "--name", "first", "--hold", "4", *how)
    first.expect("step 4")
    until_it_decides(world, file, "my policy.py")
    second = world.job("train", "--name", "second", "--hold", "0", *how)
    world.until("second", "waits")
    until_said(world, "Now fair decides")
    why = "ValueError: not today (my policy.py, line 6); it "
    assert f"my policy.py (has failed, fair decides: {why}" in world.hocket("status").stdout
    assert f"my policy.py has failed, fair decides: {why}" in world.hocket("policy").stdout
    assert f"my policy.py has failed ({why}" in world.hocket("explain", "second").stdout
    written(tmp_path, YOUNGEST_FIRST)
    patience = world.patience()
    while "has to answer once" not in (trouble := world.status()["daemon"]["policy_trouble"]):
        patience.look(f"it has been started again: {trouble}")
    first.go_on()
    second.expect("step 0")
    world.until("first", "waits")
    until_said(world, "policy my policy.py decides again (pid")
    assert world.status()["daemon"]["policy_trouble"] == ""
    second.go_on()
    for job in (first, second):
        job.go_on()  # to its end
    for job in (first, second):
        job.finishes()
    assert any("is the youngest of them" in turn["reason"] for turn in world.turns()), world.turns()


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


@pytest.fixture(params=["python", "cpp"])
def example(
    request: pytest.FixtureRequest, world: World, tmp_path_factory: pytest.TempPathFactory
) -> tuple[pathlib.Path, str]:
    """The policy that coordinator/own/README.md shows in this language: its file, and its name."""
    shown = re.search(rf"```{request.param}\n(.*?)```", OWN.read_text(), re.DOTALL)
    assert shown
    folder = tmp_path_factory.getbasetemp() / "example"  # compiled once for all tests
    folder.mkdir(exist_ok=True)
    file = folder / f"short_steps.{'py' if request.param == 'python' else 'cc'}"
    file.write_text(shown[1])
    world.environment["XDG_CACHE_HOME"] = str(folder)
    world.hocket("policy", str(file))  # compiles it; nobody is there yet to whom it could be handed
    return file, file.name.removesuffix(".cc")


# Of the examples, too, tests/coordinator/policy_contract_test.cc asks what a policy promises, in virtual time. This
# is what a user sees of it.
def test_under_the_example_who_waits_has_turns_and_who_is_paused_has_none(
    world: World, alone: Callable[..., list[str]], example: tuple[pathlib.Path, str]
) -> None:
    file, policy = example
    jobs = {}
    for name, hold in (("first", 4), ("second", 0), ("third", 0)):
        how = ("--name", name, "--hold", hold, "--losses", world.losses(name), "--more")
        jobs[name] = world.job("train", *how, *SMALL)
        if name == "first":
            jobs[name].expect("step 4")
            until_it_decides(world, str(file), policy)
        else:
            world.until(name, "waits")
    assert world.hocket("pause", "third").returncode == 0
    world.until("third", "paused")
    jobs["first"].go_on()
    jobs["second"].expect("step 0")
    world.until("first", "waits")
    jobs["second"].go_on()
    for name in ("first", "second"):  # each has done all its steps while the third one is paused
        jobs[name].expect("more")
    assert {turn["name"] for turn in world.turns()} == {"first", "second"}
    assert world.hocket("resume", "third").returncode == 0
    jobs["third"].expect("step 0")
    for name in ("first", "second"):  # the example lets whose steps are longer wait for them
        jobs[name].go_on()
    jobs["third"].go_on()
    for name in ("first", "second"):
        jobs[name].finishes()
    jobs["third"].expect("more")
    jobs["third"].go_on()
    jobs["third"].finishes()
    for name in jobs:
        assert world.losses(name).read_text().split() == alone("train", *SMALL)
    reasons, daemon = [turn["reason"] for turn in world.turns()], world.status()["daemon"]
    assert all(reasons), reasons
    assert (daemon["policy"], daemon["policy_trouble"]) == (policy, "")
    assert any(f"first by {policy}" in reason for reason in reasons), reasons


def job(number: int, step: float | None) -> dict:
    """As the coordinator describes one."""
    of_user = {"user": 1000, "weight": 1.0, "user_weight": 1.0, "priority": "normal"}
    so_far = {"waits": 0.5, "away": None, "served": 1.0, "steps": 3, "total_steps": 0, "step": step, "gap": None}
    return {"id": number, **of_user, **so_far}


def test_the_same_lines_have_the_same_answers_with_each_job_once(example: tuple[pathlib.Path, str]) -> None:
    file, policy = example
    command = [sys.executable, "-m", "hocket_policy", str(file)]
    if file.suffix == ".cc":
        command = [str(compiled) for compiled in (file.parent / "hocket/policies").glob(f"*/{policy}")]
    steps = {1: 0.3, 2: 0.1, 3: None, 4: 0.1, 5: None}
    jobs = [job(number, step) for number, step in steps.items()]
    lines = [
        *({"tell": "asked", "job": each} for each in jobs),
        {"ask": "order", "jobs": jobs},
        {"tell": "granted", "job": jobs[2]},
        {"tell": "charge", "job": jobs[2], "seconds": 0.2, "contended": True},
        {"tell": "forget", "id": 3},
        {"ask": "order", "jobs": [each for each in jobs if each["id"] != 3]},
    ]
    said = []
    for _ in range(2):
        text = "".join(json.dumps(line) + "\n" for line in lines)
        done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=PATIENCE)
        assert done.returncode == 0, done.stderr
        said.append([json.loads(line) for line in done.stdout.splitlines()])
    assert said[0] == said[1]
    hello, *answers = said[0]
    assert hello == {"hocket_policy": 1, "keeps": False}
    assert [answer["order"] for answer in answers] == [[3, 5, 2, 4, 1], [5, 2, 4, 1]]


def test_when_the_examples_process_is_killed_fair_goes_on_and_says_so(
    world: World, alone: Callable[..., list[str]], example: tuple[pathlib.Path, str]
) -> None:
    file, policy = example

    def kill() -> None:
        pid = pid_of(world, policy)
        assert pid
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        until_said(world, f"policy {policy}: it has ended. Now fair decides")

    two_jobs(world, str(file), kill, policy)
    for name in ("first", "second"):
        assert world.losses(name).read_text().split() == alone("train", *SMALL)


def simulated(world: World, jobs: pathlib.Path, *policies: str) -> subprocess.CompletedProcess[str]:
    return world.hocket("simulate", str(jobs), "--json", *(f"--policy={policy}" for policy in policies))


@pytest.fixture
def jobs(tmp_path: pathlib.Path) -> pathlib.Path:
    """Two jobs of long steps, and one of short steps that comes later and is done sooner, if it goes before them."""
    file = tmp_path / "jobs.csv"
    file.write_text("name,arrival_s,steps,step_ms\nlong,0,100,100\nlonger,0,100,100\nshort,1,100,10\n")
    return file


def test_the_example_is_simulated_and_twice_the_same(
    world: World, jobs: pathlib.Path, example: tuple[pathlib.Path, str]
) -> None:
    file, policy = example
    twice = [simulated(world, jobs, "fifo", str(file)) for _ in range(2)]
    assert [done.returncode for done in twice] == [0, 0], twice
    assert twice[0].stdout == twice[1].stdout
    simulations = json.loads(twice[0].stdout)["policies"]
    assert list(simulations) == ["fifo", policy]
    # Between two short steps there is one long one, not two: the short job takes 11 s instead of 21.
    assert simulations[policy]["mean_jct_s"] < simulations["fifo"]["mean_jct_s"] - 2


def test_a_simulation_under_a_policy_that_fails_says_where(
    world: World, jobs: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    failed = simulated(world, jobs, written(tmp_path, FAILS_LATER))
    assert failed.returncode == 1
    assert "my policy.py has failed: ZeroDivisionError: division by zero (my policy.py, line 12)" in failed.stderr
    assert "Traceback" not in failed.stderr and not failed.stdout
    assert "there is no file" in simulated(world, jobs, "./nowhere.py").stderr


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
