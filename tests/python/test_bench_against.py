"""Spills and restores against others: who is not there, or is refused, is not measured, and counts for nothing."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
from typing import Any

import pytest

from tests.bench import against, harness, table
from tests.gpu.check import page

SIZE = 1 << 20
WITHOUT_BINDINGS = "import sys; sys.modules['cuda.bindings'] = None; from tests.bench import checkpoint_job as job; "
# What checkpoint_job.py calls of a driver, with memory of the process; each call of the checkpoint's is written down.
DRIVER = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
int cuInit(unsigned flags) { return 0; }
int cuDeviceGet(int* device, int ordinal) { return *device = 0; }
int cuDevicePrimaryCtxRetain(void** context, int device) { *context = (void*)1; return 0; }
int cuCtxSetCurrent(void* context) { return 0; }
int cuCtxSynchronize(void) { return 0; }
int cuMemAlloc_v2(unsigned long* address, size_t size) { return (*address = (unsigned long)malloc(size)) == 0 ? 2 : 0; }
int cuMemsetD8_v2(unsigned long to, unsigned char byte, size_t size) { memset((void*)to, byte, size); return 0; }
int cuMemcpyDtoH_v2(void* to, unsigned long from, size_t size) {
  memcpy(to, (void*)from, size);
  if (getenv("FAKE_WRONG")) *(char*)to = 0;
  return 0;
}
int cuGetErrorName(int code, const char** name) { *name = "CUDA_ERROR_NOT_SUPPORTED"; return code != 801; }
static int called(const char* name, int pid, unsigned* arguments) {
  FILE* log = fopen(getenv("FAKE_LOG"), "a");
  fprintf(log, "%s %d %u\n", name, pid, arguments ? *arguments : 0);
  fclose(log);
  const char* refused = getenv("FAKE_REFUSES");
  return refused && strcmp(refused, name) == 0 ? 801 : 0;
}
#define CALL(name) int name(int pid, unsigned* arguments) { return called(#name, pid, arguments); }
CALL(cuCheckpointProcessLock)
CALL(cuCheckpointProcessCheckpoint)
CALL(cuCheckpointProcessRestore)
#ifndef OLD
CALL(cuCheckpointProcessUnlock)
#endif
"""


class Played:
    """A worker that says what it is told to."""

    def __init__(self, *answers: dict[str, Any] | Exception) -> None:
        self._answers = list(answers)

    def end(self) -> dict[str, Any]:
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    ask = end


OURS = {"out": 100, "in": 50}
THEIRS = {"through": "calls 1.0", "out": 400, "in": 150, "right": True}
CHECKPOINT = against.CONTENDERS[0]


def found(*answers: dict[str, Any] | Exception, seconds: float = 10) -> against.Found:
    made = against.Found()
    against.add(
        made, CHECKPOINT, 256, lambda: against.in_turns(Played(OURS), Played(*answers), rounds=5, seconds=seconds)
    )
    return made


def why_not(made: against.Found) -> str:
    assert made.figures == [] and made.raw == []
    assert [each["name"] for each in made.not_measured] == [
        "spill_0.25_gib_against_checkpoint",
        "restore_0.25_gib_against_checkpoint",
    ]
    (why,) = {each["why"] for each in made.not_measured}
    return why


def test_a_contender_has_a_figure_for_each_way() -> None:
    made = found(THEIRS)
    assert made.not_measured == []
    assert [(f.name, f.value, f.met) for f in made.figures] == [
        ("spill_0.25_gib_against_checkpoint", 4.0, "yes"),
        ("restore_0.25_gib_against_checkpoint", 3.0, "yes"),
    ]
    assert "through calls 1.0" in made.figures[0].baseline


def test_one_that_is_refused_is_not_measured() -> None:
    assert why_not(found({"not_measured": "the driver says no"})) == "the driver says no"
    assert why_not(found(THEIRS, {"not_measured": "not any more"})) == "not any more"


def test_one_that_ends_is_not_measured_and_its_last_words_are_told() -> None:
    assert why_not(found(RuntimeError("benchmark worker ended with status -6:\nit hurts"))).endswith("-6: it hurts")


def test_one_that_takes_too_long_is_not_measured() -> None:
    slow = {**THEIRS, "out": 2_000_000_000, "in": 1_000_000_000}
    assert why_not(found(slow)) == "a round took 3.0 s; 5 of them do not fit into the 10 s for it"


def test_wrong_bytes_are_not_measured_where_bytes_mean_something(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = {**THEIRS, "right": False}
    assert len(found(wrong).figures) == 2, "in timing mode nothing is computed"
    monkeypatch.setattr(harness.PLACE, "emulated", False)
    assert "bytes that came back are not those" in why_not(found(wrong))


def test_what_was_not_measured_is_on_both_pages_and_counts_for_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
) -> None:
    monkeypatch.setattr(harness.PLACE, "results", tmp_path)
    monkeypatch.setattr(table, "RESULTS", tmp_path)
    missing = found({"not_measured": "the driver says no"}).not_measured
    figure = harness.figure("spill_rate_1_gib", "spill rate, 1 GiB", [1.0] * 5, 0.9, "copies", at_least=True)
    path = harness.record("spill_rate", [figure], extra={"not_measured": missing})
    rows = [line for line in table.write().splitlines() if "not measured: the driver says no" in line]
    assert len(rows) == 2 and all("| yes |" not in row and "| **no** |" not in row for row in rows)
    record = {
        "results": [json.loads(path.read_text())],
        "about": {},
        "machine": {},
        "parts": [],
        "tests": [],
        "facts": [],
    }
    said = page.markdown(record)
    assert "1 of 1 figures meet their goals, 2 more were not measured." in said
    assert said.count("not measured: the driver says no") == 2


# --- the workers ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A folder with the driver above, and in ``old`` one that lacks a call."""
    folder = tmp_path_factory.mktemp("driver")
    (folder / "old").mkdir()
    (folder / "driver.c").write_text(DRIVER)
    for path, *flags in ((folder, "-UOLD"), (folder / "old", "-DOLD")):
        command = ["cc", "-shared", "-fPIC", *flags, "-o", str(path / "libcuda.so.1"), str(folder / "driver.c")]
        subprocess.run(command, check=True)
    return folder


def said_by(command: list[str], lines: int, **variables: str) -> list[dict[str, Any]]:
    environment = {**os.environ, **variables}
    run = subprocess.run(
        command, input="{}\n" * lines, capture_output=True, text=True, env=environment, cwd=harness.ROOT, check=False
    )
    assert run.returncode == 0, run.stderr
    return [json.loads(line) for line in run.stdout.splitlines()]


def by_ctypes(library: pathlib.Path, lines: int = 0, **variables: str) -> list[dict[str, Any]]:
    program = [sys.executable, "-c", f"{WITHOUT_BINDINGS}job.main({SIZE})"]
    return said_by(program, lines, LD_LIBRARY_PATH=str(library), **variables)


def test_a_round_locks_checkpoints_restores_and_unlocks_the_child(driver: pathlib.Path, tmp_path: pathlib.Path) -> None:
    log = tmp_path / "calls"
    first, second = by_ctypes(driver, lines=1, FAKE_LOG=str(log))
    for answer in (first, second):
        assert answer["through"] == "ctypes on libcuda.so.1"
        assert answer["right"] and answer["out"] > 0 and answer["in"] > 0
    calls = [line.split() for line in log.read_text().splitlines()]
    order = ["Lock", "Checkpoint", "Restore", "Unlock"]
    assert [name.removeprefix("cuCheckpointProcess") for name, _, _ in calls] == 2 * order
    assert len({pid for _, pid, _ in calls}) == 1
    assert calls[0][2] == "20000", "a lock has a limit"


def test_bytes_that_are_not_what_they_were_are_seen(driver: pathlib.Path, tmp_path: pathlib.Path) -> None:
    (only,) = by_ctypes(driver, FAKE_LOG=str(tmp_path / "calls"), FAKE_WRONG="1")
    assert not only["right"]


@pytest.mark.parametrize("call", ["cuCheckpointProcessLock", "cuCheckpointProcessRestore"])
def test_what_the_driver_refuses_is_told_with_its_answer(
    driver: pathlib.Path, tmp_path: pathlib.Path, call: str
) -> None:
    (only,) = by_ctypes(driver, lines=1, FAKE_LOG=str(tmp_path / "calls"), FAKE_REFUSES=call)
    why = f"{call} answers CUDA_ERROR_NOT_SUPPORTED (801), through ctypes on libcuda.so.1"
    assert only == {"not_measured": why}


def test_a_driver_without_the_calls_is_told(driver: pathlib.Path, tmp_path: pathlib.Path) -> None:
    (only,) = by_ctypes(driver / "old", FAKE_LOG=str(tmp_path / "calls"))
    assert "this driver has no cuCheckpointProcessUnlock, which came with 570" in only["not_measured"]


def on_emulated(*program: str, lines: int = 0, timing: bool = False, **variables: str) -> list[dict[str, Any]]:
    command = [harness.hocket(), "emulate", "--name", f"against-{os.getpid()}", "--memory", "64MiB"]
    return said_by([*command, *(["--timing"] if timing else []), "--", sys.executable, *program], lines, **variables)


def test_the_emulated_driver_refuses_by_either_way() -> None:
    (only,) = on_emulated("-m", "tests.bench.checkpoint_job", str(SIZE), timing=True)
    answer = "cuCheckpointProcessLock answers CUDA_ERROR_NOT_SUPPORTED (801), through "
    assert only["not_measured"].startswith(answer)
    (only,) = on_emulated("-c", f"{WITHOUT_BINDINGS}job.main({SIZE})", timing=True)
    assert only == {"not_measured": f"{answer}ctypes on libcuda.so.1"}


def test_without_torch_memory_saver_that_is_said() -> None:
    hidden = "import sys; sys.modules['torch_memory_saver'] = None; from tests.bench import saver_job as job; "
    (only,) = said_by([sys.executable, "-c", f"{hidden}job.main({SIZE})"], 0)
    assert only == {"not_measured": "torch_memory_saver is not installed"}


SAVER = """
import contextlib, os
class Saver:
    hook_mode = None
    retain_cpu_backup = False
    @contextlib.contextmanager
    def region(self, enable_cpu_backup):
        assert self.hook_mode == "torch" and enable_cpu_backup
        yield
    def pause(self):
        if "BREAKS" in os.environ: raise RuntimeError("no host memory")
    def resume(self): pass
torch_memory_saver = Saver()
"""


def test_torch_memory_saver_pauses_and_resumes(tmp_path: pathlib.Path) -> None:
    (tmp_path / "torch_memory_saver.py").write_text(SAVER)
    about = tmp_path / "torch_memory_saver-1.2.dist-info" / "METADATA"
    about.parent.mkdir()
    about.write_text("Name: torch_memory_saver\nVersion: 1.2\n")
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    program = ("-m", "tests.bench.saver_job", str(SIZE))
    first, second = on_emulated(*program, lines=1, PYTHONPATH=path)
    for answer in (first, second):
        assert answer["through"] == "torch_memory_saver 1.2" and answer["keeps_host_memory"] and answer["right"]
    (only,) = on_emulated(*program, PYTHONPATH=path, BREAKS="1")
    assert only == {"not_measured": "torch_memory_saver 1.2: RuntimeError: no host memory"}
