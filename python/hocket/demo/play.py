"""The acts: each training alone, then both together."""

from __future__ import annotations

import contextlib
import json
import statistics
import subprocess
from collections.abc import Callable, Iterator
from typing import Any

from hocket.demo import results, watch
from hocket.demo.plan import Training
from hocket.demo.stage import Stage

Progress = Callable[[str, dict[str, int]], None]  # act, steps done by each job


class TrainingFailed(Exception):
    """A training of the demo ended badly; the text holds its last words."""


class _Act:
    """What one act left behind."""

    def __init__(self, capacity: int, peak: int, samples: list[watch.Sample], turns: list[watch.Turn]) -> None:
        self.capacity = capacity
        self.peak = peak
        self.samples = samples
        self.turns = turns


def play(stage: Stage, trainings: list[Training], progress: Progress) -> results.Results:
    """Runs all acts and returns what was found. TrainingFailed: one ended with an error."""
    alone = {}
    for training in trainings:
        stage.new_device()
        alone[training.name] = _act(stage, [training], "alone", progress)
    stage.new_device()
    together = _act(stage, trainings, "together", progress)
    both = results.overlap(together.turns)
    return results.Results(
        emulated=stage.emulated,
        capacity=together.capacity,
        jobs=[_job(stage, training, alone[training.name], together, both) for training in trainings],
        peak_together=together.peak,
        hand_over=results.median_hand_over(together.turns),
        turns=together.turns,
        samples=together.samples,
    )


def _act(stage: Stage, trainings: list[Training], act: str, progress: Progress) -> _Act:
    seen = len(watch.turns())
    with _peak(stage) as peak:
        processes = {training.name: stage.start(training, act) for training in trainings}
        watch.until_all_have_joined(processes)
        samples = watch.until_end(processes, lambda done: progress(act, done))
    for training in trainings:
        _check(stage, training, act, processes[training.name])
    progress(act, {training.name: training.steps for training in trainings})
    return _Act(peak["capacity"], peak["largest"], samples, watch.turns(seen))


@contextlib.contextmanager
def _peak(stage: Stage) -> Iterator[dict[str, int]]:
    """The device's capacity, and (afterwards) the largest use in between."""
    monitor = stage.start_monitor()
    assert monitor.stdout
    first = monitor.stdout.readline().split()
    if len(first) != 2:
        raise TrainingFailed("the device does not answer; hocket doctor says more")
    found = {"capacity": int(first[0]) - int(first[1])}
    yield found
    last, _ = monitor.communicate("")
    found["largest"] = int(last)


def _check(stage: Stage, training: Training, act: str, process: subprocess.Popen[str]) -> None:
    if process.returncode != 0:
        said = stage.log(training, act).read_text(encoding="utf-8", errors="replace")[-3000:]
        raise TrainingFailed(f"{training.title} ({act}) ended with status {process.returncode}:\n{said}")


def _report(stage: Stage, training: Training, act: str) -> dict[str, Any]:
    return json.loads(stage.report(training, act).read_text())


def _job(stage: Stage, training: Training, alone: _Act, together: _Act, both: list[watch.Turn]) -> results.Job:
    turns = [turn for turn in together.turns if turn.job == training.name]
    return results.Job(
        name=training.name,
        title=training.title,
        steps=training.steps,
        step_alone=statistics.median(_report(stage, training, "alone")["step_seconds"]),
        step_shared=statistics.median(_report(stage, training, "together")["step_seconds"]),
        peak_alone=alone.peak,
        turns=len(turns),
        share=results.share(both, training.name),
        spilled=sum(turn.spilled for turn in together.turns if turn.job != training.name),
        restored=sum(turn.restored for turn in turns),
        identical=_losses(stage, training, "alone") == _losses(stage, training, "together"),
    )


def _losses(stage: Stage, training: Training, act: str) -> str:
    return stage.losses(training, act).read_text()
