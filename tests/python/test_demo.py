"""``hocket demo`` over constructed results: what it shows, what it calls a failure, the picture. No training runs."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import pathlib
import struct
import subprocess
import sys
import types
from typing import Any

import pytest
from click.testing import CliRunner, Result
from hocket.cli import demo
from hocket.demo import picture, play, results, stage, watch
from hocket.demo.plan import Training

MIB = 1 << 20

GPT = results.Job(
    name="gpt", title="a small GPT", steps=20, step_alone=0.110, step_shared=0.125, peak_alone=120 * MIB, turns=6,
    share=0.75, spilled=300 * MIB, restored=280 * MIB, identical=True,
)  # fmt: skip
DIGITS = results.Job(
    name="digits", title="a CNN", steps=60, step_alone=0.020, step_shared=0.031, peak_alone=90 * MIB, turns=7,
    share=0.25, spilled=200 * MIB, restored=190 * MIB, identical=True,
)  # fmt: skip


def turn(job: str, start: float, end: float, spilled: int = 0, restored: int = 0, hand_over: float = 0.0):
    return watch.Turn(job, start, end, steps=1, restored=restored, spilled=spilled, hand_over=hand_over)


WELL = results.Results(
    emulated=True,
    capacity=168 * MIB,
    jobs=[GPT, DIGITS],
    peak_together=160 * MIB,
    hand_over=0.012,
    turns=[turn("gpt", 10, 13), turn("digits", 13, 14), turn("gpt", 14, 17)],
    samples=[
        watch.Sample(10 + i, {"gpt": 80 * MIB, "digits": 20 * MIB}, {"digits": 40 * MIB}, 50 * MIB) for i in range(7)
    ],
)


def changed(**jobs: dict) -> results.Results:
    """WELL, with fields of its jobs changed."""
    return dataclasses.replace(WELL, jobs=[dataclasses.replace(job, **jobs.get(job.name, {})) for job in WELL.jobs])


@pytest.fixture
def examples(tmp_path: pathlib.Path) -> pathlib.Path:
    folder = tmp_path / "examples"
    folder.mkdir()
    (folder / "train_gpt.py").touch()
    return folder


@pytest.fixture
def ends(monkeypatch: pytest.MonkeyPatch, examples: pathlib.Path):
    """Runs the command as if its trainings had left these results; ``stages`` gets whether they were emulated."""

    def draws(_results: results.Results, path: pathlib.Path) -> None:
        path.write_text("drawn")

    def command(
        found: results.Results | Exception, *options: str, stages: list[bool] | None = None, draw: Any = draws
    ) -> Result:
        def played(_stage: object, trainings: list[Training], progress: play.Progress) -> results.Results:
            progress("alone", {trainings[0].name: 7})
            if isinstance(found, Exception):
                raise found
            return found

        def staged(emulated: bool) -> contextlib.nullcontext:
            if stages is not None:
                stages.append(emulated)
            return contextlib.nullcontext()

        monkeypatch.setattr(stage, "Stage", staged)
        monkeypatch.setattr(play, "play", played)
        monkeypatch.setattr(picture, "draw", draw)
        paths = ["--examples", str(examples), "--picture", str(examples / "turns.png")]
        return CliRunner().invoke(demo.command, [*paths, *options], catch_exceptions=False)

    return command


# --- where it plays ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("driver", "options", "name", "emulated"),
    [
        pytest.param(True, [], None, False, id="a driver is found"),
        pytest.param(False, [], None, True, id="no driver is found"),
        pytest.param(True, ["--emulate"], None, True, id="told to emulate beside a driver"),
        pytest.param(True, [], "mine", True, id="under hocket emulate, whose driver is found too"),
    ],
)
def test_a_gpu_is_used_where_there_is_one_unless_told_to_emulate(
    ends, monkeypatch: pytest.MonkeyPatch, driver: bool, options: list[str], name: str | None, emulated: bool
) -> None:
    stages: list[bool] = []
    found = types.SimpleNamespace(probe_driver=lambda: {"found": driver})
    monkeypatch.setattr(demo, "control", lambda: found)
    monkeypatch.delenv("HOCKET_EMULATOR_NAME", raising=False)
    if name:
        monkeypatch.setenv("HOCKET_EMULATOR_NAME", name)
    ends(WELL, *options, stages=stages)
    assert stages == [emulated]


# --- what is shown ----------------------------------------------------------------------------------


def test_the_table_and_the_lines_have_all_that_is_promised(ends, examples: pathlib.Path) -> None:
    said = ends(WELL)
    assert said.exit_code == 0, said.output
    assert "Two trainings on one emulated GPU of 168.0 MiB" in said.output
    lines = said.output.splitlines()
    heads = [i for i, line in enumerate(lines) if line.strip().startswith("training")]
    assert len(heads) == 1
    head = " ".join(lines[heads[0] - 1 : heads[0] + 1])
    for column in ("steps", "step", "alone", "shared", "turns", "GPU", "share", "peak", "spilled", "restored"):
        assert column in head, said.output
    rows = {
        line.split()[0]: line.split()[1:] for line in lines if line.startswith((" gpt", "gpt", " digits", "digits"))
    }
    assert " ".join(rows["gpt"]) == "20 110.0 ms 125.0 ms 6 75% 120.0 MiB 300.0 MiB 280.0 MiB"
    assert " ".join(rows["digits"]) == "60 20.0 ms 31.0 ms 7 25% 90.0 MiB 200.0 MiB 190.0 MiB"
    assert "peak device memory together: 160.0 MiB (the two alone: 210.0 MiB in sum, 120.0 MiB the larger)" in lines, (
        said.output
    )
    assert "hand-over, from the end of one job's turn to the other's first step: 12.0 ms (median)" in lines
    assert "losses identical to running alone: yes" in lines
    assert (examples / "turns.png").exists()
    assert lines[-1] == f"picture of the turns: {(examples / 'turns.png').resolve()}"


def test_how_far_each_training_is_stands_beside_its_bar(ends) -> None:
    lines = ends(WELL).output.splitlines()
    assert next(line for line in lines if "alone" in line and "7/" in line).startswith("a small GPT"), lines


def test_on_a_gpu_nothing_says_emulated(ends) -> None:
    said = ends(dataclasses.replace(WELL, emulated=False)).output
    assert "Two trainings on one GPU of 168.0 MiB" in said
    assert "emulated" not in said


def test_the_picture_is_a_png_of_the_promised_size(tmp_path: pathlib.Path) -> None:
    picture.draw(WELL, tmp_path / "turns.png")
    data = (tmp_path / "turns.png").read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    assert struct.unpack(">II", data[16:24]) == (1560, 806), "12 by 6.2 inches"
    assert len(data) > 10_000, "it is drawn on"


def test_json_has_what_the_table_has(ends, examples: pathlib.Path) -> None:
    ends(WELL, "--json", str(examples / "demo.json"))
    written = json.loads((examples / "demo.json").read_text())
    assert written["jobs"] == [dataclasses.asdict(job) for job in WELL.jobs]
    assert written["turns"] == [dataclasses.asdict(turn) for turn in WELL.turns]
    expected = {
        "emulated": True, "capacity": 168 * MIB, "peak_together": 160 * MIB, "sum_alone": 210 * MIB,
        "largest_alone": 120 * MIB, "hand_over": 0.012, "losses_identical": True, "failures": [],
        "picture": str(examples / "turns.png"),
    }  # fmt: skip
    assert {name: written[name] for name in expected} == expected


@pytest.mark.parametrize(
    ("option", "name", "said"),
    [
        ("--picture", "no/turns.png", "there is no folder"),
        ("--picture", "turns.doc", "Let it end in .png"),
        ("--picture", "turns", "Let it end in .png"),
        ("--json", "no/turns.json", "there is no folder"),
    ],
)
def test_what_cannot_be_written_is_said_before_anything_runs(
    ends, examples: pathlib.Path, option: str, name: str, said: str
) -> None:
    stages: list[bool] = []
    answer = ends(WELL, option, str(examples / name), stages=stages)
    assert (answer.exit_code, stages) == (1, [])
    assert f"{examples / name}: " in answer.output and said in answer.output


def test_without_matplotlib_nothing_runs(ends, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == "matplotlib"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    stages: list[bool] = []
    answer = ends(WELL, stages=stages)
    assert (answer.exit_code, stages) == (1, [])
    assert "pip install matplotlib" in answer.output


@pytest.mark.parametrize("trouble", [OSError(28, "No space left on device"), ValueError("no"), ImportError("no")])
def test_a_picture_that_fails_costs_no_results(ends, examples: pathlib.Path, trouble: Exception) -> None:
    def fails(*_: object) -> None:
        raise trouble

    answer = ends(WELL, "--json", str(examples / "demo.json"), draw=fails)
    assert answer.exit_code == 1
    assert "losses identical to running alone: yes" in answer.output
    assert "picture of the turns" not in answer.output
    assert f"Error: cannot draw {examples / 'turns.png'}: " in answer.output
    assert json.loads((examples / "demo.json").read_text())["losses_identical"] is True


# --- what is a failure ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("found", "sentence"),
    [
        pytest.param(changed(digits={"identical": False}), "digits: losses differ from those alone", id="losses"),
        pytest.param(
            changed(gpt={"turns": 1}), "gpt had 1 turns, at least 4 were expected", id="turns"
        ),
        pytest.param(
            changed(gpt={"spilled": 0}, digits={"spilled": 0}),
            "nothing was spilled, though the two need 210.0 MiB of 168.0 MiB together",
            id="nothing spilled",
        ),
        pytest.param(
            dataclasses.replace(WELL, turns=[turn("gpt", 10, 13), turn("digits", 13, 14)]),
            "gpt and digits never wanted the GPU at the same time: nothing was shared",
            id="no overlap",
        ),
    ],
)  # fmt: skip
def test_each_failure_is_a_sentence_and_status_1(
    ends, examples: pathlib.Path, found: results.Results, sentence: str
) -> None:
    said = ends(found, "--json", str(examples / "demo.json"))
    assert said.exit_code == 1
    assert said.output.splitlines()[-1] == f"hocket demo: {sentence}"
    assert json.loads((examples / "demo.json").read_text())["failures"] == [sentence]
    same = "no" if "losses" in sentence else "yes"
    assert f"losses identical to running alone: {same}" in said.output


def test_nothing_need_be_spilled_where_both_fit(ends) -> None:
    roomy = dataclasses.replace(changed(gpt={"spilled": 0}, digits={"spilled": 0}), capacity=1 << 40)
    assert ends(roomy).exit_code == 0


def test_a_training_that_fails_is_a_sentence_with_its_last_words(ends, examples: pathlib.Path) -> None:
    said = ends(play.TrainingFailed("a CNN (together) ended with status 3:\nRuntimeError: no"))
    assert said.exit_code == 1
    assert "Error: a CNN (together) ended with status 3:\nRuntimeError: no" in said.output
    assert not (examples / "turns.png").exists()


def test_without_examples_it_says_where_to_find_them(tmp_path: pathlib.Path) -> None:
    said = CliRunner().invoke(demo.command, ["--examples", str(tmp_path)])
    assert said.exit_code == 1
    assert "run it in Hocket's source folder, or give --examples" in said.output


# --- from what the acts left behind to results ------------------------------------------------------

TRAININGS = [
    Training("gpt", "a small GPT", pathlib.Path("gpt"), (), 2),
    Training("digits", "a CNN", pathlib.Path("d"), (), 3),
]
TOGETHER = [
    turn("gpt", 0, 8, hand_over=9.0),
    turn("digits", 8, 9, spilled=30, restored=5, hand_over=0.2),
    turn("gpt", 9, 12, spilled=7, restored=20, hand_over=0.4),
    turn("gpt", 12, 13, spilled=1, hand_over=0.0),
    turn("digits", 13, 15, spilled=10, restored=6, hand_over=0.3),
]  # fmt: skip


class RecordedStage:
    """Trainings that have run before: their losses, reports and logs are written, nothing is computed."""

    emulated = True

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = folder
        self.told = {"digits": "0x1.8p+0\n", "gpt": "0x1.4p+1\n"}
        self.differs: tuple[str, str] | None = None  # training, act
        self.fails: tuple[str, str] | None = None
        self.peaks = iter(("70", "60", "90"))
        self.turns: list[watch.Turn] = []

    def new_device(self) -> None:
        pass

    def start(self, training: Training, act: str) -> subprocess.Popen[str]:
        place = (training.name, act)
        self.losses(training, act).write_text(self.told[training.name] if place != self.differs else "0x1.0p+0\n")
        seconds = [0.5, 0.1, 0.2] if act == "alone" else [0.9, 0.3, 0.4]
        self.report(training, act).write_text(json.dumps({"step_seconds": seconds}))
        self.log(training, act).write_text("Traceback: the disk is gone\n")
        alone = [turn(training.name, 0, 1)] if act == "alone" else []
        self.turns += alone or (TOGETHER if training.name == "gpt" else [])
        return subprocess.Popen(["sh", "-c", f"exit {3 if place == self.fails else 0}"], text=True)

    def start_monitor(self) -> subprocess.Popen[str]:
        says = f"echo 100 20; read nothing; echo {next(self.peaks)}"
        return subprocess.Popen(["sh", "-c", says], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def losses(self, training: Training, act: str) -> pathlib.Path:
        return self.folder / f"{act}-{training.name}.losses"

    def report(self, training: Training, act: str) -> pathlib.Path:
        return self.folder / f"{act}-{training.name}.json"

    def log(self, training: Training, act: str) -> pathlib.Path:
        return self.folder / f"{act}-{training.name}.log"


@pytest.fixture
def recorded(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> RecordedStage:
    made = RecordedStage(tmp_path)
    monkeypatch.setattr(watch, "turns", lambda since=0: made.turns[since:])
    monkeypatch.setattr(watch, "look", lambda: None)
    return made


def test_each_figure_comes_from_its_own_act(recorded: RecordedStage) -> None:
    found = play.play(recorded, TRAININGS, lambda act, done: None)
    gpt, digits = found.jobs
    assert (gpt.step_alone, gpt.step_shared) == (0.2, 0.4), "medians"
    assert (gpt.turns, digits.turns) == (3, 2)
    assert (gpt.peak_alone, digits.peak_alone, found.peak_together) == (70, 60, 90)
    assert found.capacity == 80, "what was free at the beginning"
    assert (gpt.restored, digits.restored) == (20, 11)
    assert (gpt.spilled, digits.spilled) == (40, 8), "the bytes of one go while the other gets its turn"
    assert found.hand_over == 0.3, "the median of those from one job to the other"
    assert (gpt.share, digits.share) == (0.8, 0.2), "of the turns between the first of both and the last of both"
    assert found.identical


def test_progress_is_told_while_the_trainings_run(recorded: RecordedStage, monkeypatch: pytest.MonkeyPatch) -> None:
    """They end only when the first step of all has been told."""
    running: list[subprocess.Popen[str]] = []
    told: list[tuple[str, dict[str, int]]] = []
    recorded_start = recorded.start

    def start(training: Training, act: str) -> subprocess.Popen[str]:
        recorded_start(training, act).wait()
        running.append(subprocess.Popen(["sh", "-c", "read go; true"], stdin=subprocess.PIPE, text=True))
        return running[-1]

    def progress(act: str, done: dict[str, int]) -> None:
        told.append((act, done))
        for process in running:
            process.communicate()
        running.clear()

    monkeypatch.setattr(recorded, "start", start)
    monkeypatch.setattr(watch, "look", lambda: (WELL.samples[0], {"gpt": 1, "digits": 1}))
    play.play(recorded, TRAININGS, progress)
    step, end = {"gpt": 1, "digits": 1}, {"gpt": 2, "digits": 3}
    assert told == [
        ("alone", step), ("alone", {"gpt": 2}), ("alone", step), ("alone", {"digits": 3}),
        ("together", step), ("together", end),
    ]  # fmt: skip


def test_a_training_has_no_turn_before_the_other_has_joined(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = iter([None, {}, {"gpt": 0}, {"gpt": 0}, {"gpt": 1, "digits": 0}])
    said = iter([None, None, {}])  # the coordinator is too busy at first
    asked: list[tuple[str, str]] = []

    def look() -> tuple[watch.Sample, dict[str, int]] | None:
        steps = next(seen)
        return None if steps is None else (WELL.samples[0], steps)

    def ask(command: str, job: str) -> dict[str, Any] | None:
        asked.append((command, job))
        return next(said)

    monkeypatch.setattr(watch, "look", look)
    monkeypatch.setattr(watch, "ask", ask)
    processes = {
        name: subprocess.Popen(["sh", "-c", "read go; true"], stdin=subprocess.PIPE, text=True)
        for name in ("gpt", "digits")
    }
    watch.until_all_have_joined(processes)
    for process in processes.values():
        process.communicate()
    assert asked == [("pause", "gpt"), ("resume", "gpt"), ("resume", "gpt")], "it may be paused all the same"
    assert next(seen, "all was seen") == "all was seen"


def test_one_other_bit_is_a_difference(recorded: RecordedStage) -> None:
    recorded.differs = ("digits", "together")
    assert [job.identical for job in play.play(recorded, TRAININGS, lambda act, done: None).jobs] == [True, False]


def test_a_training_that_ends_badly_is_named_with_its_act_status_and_log(recorded: RecordedStage) -> None:
    recorded.fails = ("digits", "together")
    with pytest.raises(
        play.TrainingFailed, match=r"a CNN \(together\) ended with status 3:\nTraceback: the disk is gone"
    ):
        play.play(recorded, TRAININGS, lambda act, done: None)


def test_a_device_that_does_not_answer_is_said(recorded: RecordedStage) -> None:
    recorded.start_monitor = lambda: subprocess.Popen(["true"], stdin=-1, stdout=-1, text=True)  # type: ignore
    with pytest.raises(play.TrainingFailed, match="the device does not answer; hocket doctor says more"):
        play.play(recorded, TRAININGS, lambda act, done: None)
