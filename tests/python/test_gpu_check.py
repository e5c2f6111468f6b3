"""scripts/gpu-check: what it leaves behind, whatever its parts do."""

from __future__ import annotations

import gzip
import hashlib
import json
import pathlib
import re
import subprocess
import sys
from typing import Any

import pytest

from tests.bench import harness
from tests.gpu.check import build, histories, machine, page, progress
from tests.gpu.check.parts import BUILDING, FIRST_CALL, LONG, MINUTES, Part, parts
from tests.gpu.check.runner import RESERVE, Lines


@pytest.fixture
def work(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    """What build/gpu-check is to the check: an empty folder."""
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.setattr(machine, "FILE", folder / "machine.json")
    monkeypatch.setattr(histories, "FILE", folder / "histories.tar.gz")
    monkeypatch.setattr(page, "RECORDS", (folder / "tests.jsonl",))
    monkeypatch.setattr(page, "RESULTS", folder / "results")
    monkeypatch.setattr(progress, "FILE", folder / "progress.json")
    return folder


@pytest.fixture
def out(tmp_path: pathlib.Path) -> pathlib.Path:
    folder = tmp_path / "out"
    folder.mkdir()
    return folder


def record(out: pathlib.Path) -> dict:
    return json.loads((out / "record.json").read_text())


def test_what_an_earlier_run_left_in_the_output_folder_goes_and_what_is_the_users_stays(
    work: pathlib.Path, out: pathlib.Path
) -> None:
    for name in ("report.md", "record.json", "log.txt", "histories.tar.gz", "notes.md"):
        (out / name).write_text("of another day")
    page.clear(out)
    page.write(out, work / "log.txt", [], {})
    assert {file.name for file in out.iterdir()} == {"report.md", "record.json", "log.txt", "notes.md"}
    assert (out / "notes.md").read_text() == "of another day"
    assert record(out)["histories"] == {}


def test_the_record_names_the_histories_that_belong_to_it(work: pathlib.Path, out: pathlib.Path) -> None:
    histories.FILE.write_bytes(b"some")
    page.write(out, work / "log.txt", [], {})
    assert (out / "histories.tar.gz").read_bytes() == b"some"
    named = {"file": "histories.tar.gz", "bytes": 4, "sha256": hashlib.sha256(b"some").hexdigest()}
    assert record(out)["histories"] == named


def test_histories_that_are_too_large_are_left_out_and_the_record_says_so(
    work: pathlib.Path, out: pathlib.Path
) -> None:
    with open(histories.FILE, "wb") as file:
        file.truncate(page.MOST_FILE + 1)
    page.write(out, work / "log.txt", [], {})
    assert not (out / "histories.tar.gz").exists()
    assert record(out)["histories"]["left out"] == "at most 16,777,216 bytes a file"
    assert "histories of allocations are left out: 16,777,217 bytes" in (out / "report.md").read_text()


def test_a_history_says_of_what_it_is(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "gpt.txt.gz"
    command = [harness.hocket(), "emulate", "--name", f"history-{tmp_path.name}", "--memory", "1GiB", "--"]
    command += [sys.executable, "-m", "tests.gpu.programs.history", "--kind", "gpt", "--untidy", str(file)]
    subprocess.run(command, check=True, cwd=build.ROOT, stdout=subprocess.DEVNULL)
    first, *events = gzip.decompress(file.read_bytes()).decode().splitlines()
    said = json.loads(first.removeprefix("# "))
    assert said["kind"] == "gpt" and said["untidy"]
    assert said["torch"] and said["device"] and said["cudnn"] >= 0
    assert said["attention"] in (["math"], ["flash"], ["efficient"], ["cudnn"])
    steps = [[int(number) for number in event.split()] for event in events]
    assert {step for _, _, step in steps} == {-1, *range(6)}


def result(name: str, samples: int, raw: int) -> dict[str, Any]:
    about = dict.fromkeys(("commit", "date", "command", "machine", "device", "torch"), "x")
    return {"benchmark": name, **about, "figures": [{"samples": [0.5] * samples}], "raw": [0] * raw}


def test_of_a_record_that_is_too_large_the_raw_data_go_first(monkeypatch: pytest.MonkeyPatch) -> None:
    large, small = result("large", samples=5, raw=500), result("small", samples=5, raw=5)
    monkeypatch.setattr(page, "MOST_FILE", 2000)
    said = json.loads(page.fitted({"results": [large, small]}))
    assert said["left out"] == ["large: its raw data"]
    assert sorted(said["results"], key=lambda each: each["benchmark"]) == [
        {key: value for key, value in large.items() if key != "raw"},
        small,
    ]
    huge = result("huge", samples=500, raw=1)
    said = json.loads(page.fitted({"results": [huge, small]}))
    assert said == {"results": [small], "left out": ["huge: its raw data", "huge: all of it"]}
    assert json.loads(page.fitted({"results": [small]})) == {"results": [small]}


def part(name: str, command: str, **how: Any) -> dict[str, Any]:
    """A made-up one: a line of the shell."""
    return {"name": name, "text": name, "command": ["sh", "-c", command], "least": 1, "most": 600, **how}


HANGS = "exec tail -f /dev/null"


def runs(folder: pathlib.Path, *parts: dict[str, Any], left: float = 3600) -> dict[str, dict[str, Any]]:
    """What became of each."""
    command = [sys.executable, "-m", "tests.python.gpu_check_scene", str(folder)]
    scene = json.dumps({"parts": parts, "left": left})
    subprocess.run(command, input=scene, text=True, check=True, cwd=build.ROOT, stdout=subprocess.DEVNULL)
    return {line["name"]: line for line in record(folder / "out")["parts"]}


def became(lines: dict[str, dict[str, Any]]) -> dict[str, str]:
    return {name: line["outcome"] for name, line in lines.items()}


def test_a_part_that_fails_or_hangs_does_not_stop_the_rest(tmp_path: pathlib.Path) -> None:
    failing, hanging = part("fails", "echo the reason; exit 3"), part("hangs", f"echo begun; {HANGS}", most=1)
    lines = runs(tmp_path, failing, hanging, part("fine", "touch reached"))
    assert became(lines) == {"fails": "failed", "hangs": "stopped", "fine": "done"}
    assert (tmp_path / "reached").exists()
    said = (tmp_path / "out" / "report.md").read_text()
    assert "Not done: fails, hangs." in said and "the reason" in said and "begun" in said


def test_after_a_part_without_which_nothing_goes_on_nothing_is_tried(tmp_path: pathlib.Path) -> None:
    lines = runs(tmp_path, part("build", "exit 1", needed=True), part("tests", "touch reached"))
    assert became(lines) == {"build": "failed", "tests": "not reached"}
    assert not (tmp_path / "reached").exists()


def test_what_a_part_leaves_behind_is_ended_before_the_next(tmp_path: pathlib.Path) -> None:
    leaves = part("leaves", f"setsid sh -c '{HANGS}' & echo $! > left")
    gone = part("next", "! kill -0 $(cat left)")
    assert became(runs(tmp_path, leaves, gone)) == {"leaves": "done", "next": "done"}


def test_what_a_part_that_hangs_has_started_is_ended_too(tmp_path: pathlib.Path) -> None:
    hangs = part("hangs", f"setsid sh -c '{HANGS}' & echo $! > left; {HANGS}", most=1)
    gone = part("next", "! kill -0 $(cat left)")
    assert became(runs(tmp_path, hangs, gone)) == {"hangs": "stopped", "next": "done"}


def test_a_part_for_which_there_is_too_little_time_is_left_out_for_shorter_ones(tmp_path: pathlib.Path) -> None:
    long, short = part("long", "touch reached", least=5000), part("short", "true")
    assert became(runs(tmp_path, long, short, left=3600)) == {"long": "not reached", "short": "done"}
    assert not (tmp_path / "reached").exists()


def test_when_the_time_is_up_the_rest_is_not_reached_and_the_page_is_there(tmp_path: pathlib.Path) -> None:
    lines = runs(tmp_path, part("hangs", HANGS, least=0), part("late", "touch reached", least=3), left=2)
    assert became(lines) == {"hangs": "stopped", "late": "not reached"}
    assert not (tmp_path / "reached").exists()
    assert "Not done: hangs, late." in (tmp_path / "out" / "report.md").read_text()


def test_what_an_earlier_try_has_appended_is_not_this_ones(tmp_path: pathlib.Path) -> None:
    found = tmp_path / "work" / "tests.jsonl"
    found.parent.mkdir()
    found.write_text('{"test": "old", "outcome": "failed"}\n')
    says = """echo '{"test": "new", "outcome": "passed", "seconds": 1}' >> work/tests.jsonl"""
    runs(tmp_path, part("tests", says, appends=[str(found)]))
    assert [line["test"] for line in record(tmp_path / "out")["tests"]] == ["new"]


def test_however_much_is_said_the_output_is_few_files_of_16_mib(tmp_path: pathlib.Path) -> None:
    loud = part("loud", "head -c 40000000 /dev/zero | tr '\\0' x; exit 1")
    archive = part("histories", "head -c 9000000 /dev/urandom > work/histories.tar.gz")
    runs(tmp_path, loud, archive)
    files = list((tmp_path / "out").iterdir())
    assert {file.name for file in files} == {"report.md", "record.json", "log.txt", "histories.tar.gz"}
    assert max(file.stat().st_size for file in files) <= 16 << 20


def test_what_hangs_takes_no_time_from_what_is_worth_most() -> None:
    every = [part for part in parts(emulate=False, quick=False) if part.name != "build"]
    first = [part.name for part in every].index(FIRST_CALL) + 1
    call = 60 * MINUTES - RESERVE
    assert sum(part.most for part in every[:first]) <= call - BUILDING
    assert sum(part.most for part in every[first : -len(LONG)]) <= call, "a second call does not come to its end"
    assert tuple(part.name for part in every[-len(LONG) :]) == LONG


def test_every_program_of_a_benchmark_is_built_with_the_rest() -> None:
    for part in parts(emulate=False, quick=False):
        source = build.ROOT / "tests" / "bench" / f"{part.name}.py"
        for program in re.findall(r'harness\.binary\("(\w+)"\)', source.read_text() if source.exists() else ""):
            assert program in (*build.TARGETS, "hocketd"), f"{part.name} would build {program} in its own time"


def outcomes(**of: str) -> Lines:
    return {name: {"name": name, "outcome": outcome} for name, outcome in of.items()}


def named(name: str, **how: bool) -> Part:
    return Part(name, "", (), 1, 10, **how)


def test_a_run_that_goes_on_does_what_was_not_reached_and_then_with_more_time_what_was_stopped() -> None:
    chosen = [named("build", needed=True), *map(named, ("tests", "slow", "figures", "broken", "late"))]
    before = outcomes(build="done", tests="done", slow="stopped", figures="done", broken="failed", late="not reached")
    left = progress.still_to_do(chosen, before, named=False)
    assert [(part.name, part.most) for part in left] == [("build", 10), ("late", 10), ("slow", 20)]
    again = progress.still_to_do(chosen, before, named=True)
    assert [part.name for part in again] == ["build", "broken", "late", "slow"]
    assert progress.still_to_do(chosen, {}, named=False) == chosen


def test_nobody_goes_on_from_a_run_of_something_else(work: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress.source, "commit", lambda: "abc1234")
    monkeypatch.setattr(progress.source, "fingerprint", lambda: "f00d")
    lines, about = outcomes(tests="done"), {"date": "then"}
    assert progress.load(progress.of(False)) == ({}, {})
    progress.save(progress.of(False), about, lines)
    assert progress.load(progress.of(False)) == (about, lines)
    assert progress.load(progress.of(True)) == ({}, {})
    monkeypatch.setattr(progress.source, "commit", lambda: "def5678")
    assert progress.load(progress.of(False)) == ({}, {})
