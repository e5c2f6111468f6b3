"""``hocket demo``: two real trainings, each alone, then in turns on one GPU."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import click

from hocket.cli import picture as picture_file
from hocket.cli.common import control


@click.command()
@click.option("--emulate", is_flag=True, help="On the emulated GPU, even where there is a GPU.")
@click.option(
    "--json", "json_file", type=click.Path(dir_okay=False, path_type=Path), help="Write the results there too."
)
@click.option("--steps", type=click.IntRange(min=10), help="Steps of each training. Default: 20 and 60.")
@click.option(
    "--picture", type=click.Path(dir_okay=False, path_type=Path), default="hocket-demo.png", show_default=True
)
@click.option("--examples", type=click.Path(exists=True, file_okay=False, path_type=Path),
              help="Folder with train_gpt.py. Default: ./examples")  # fmt: skip
def command(emulate: bool, json_file: Path | None, steps: int | None, picture: Path, examples: Path | None) -> None:
    """Two real trainings, each alone, then both in turns on one GPU.

    The emulated GPU (used where there is none, or with --emulate) is too small for both, so that their memory moves.
    On a real one both fit. Exit status 0 only if the losses are the same to the last bit, both took turns, and what
    did not fit was moved.
    """
    from rich.text import Text

    from hocket.demo.picture import draw
    from hocket.demo.plan import find_examples, trainings

    folder = find_examples(examples)
    if folder is None:
        raise click.ClickException("there are no examples here: run it in Hocket's source folder, or give --examples")
    picture_file.check(picture)
    if json_file:
        picture_file.check_writable(json_file)
    emulated = emulate or bool(os.environ.get("HOCKET_EMULATOR_NAME")) or not control().probe_driver()["found"]
    results = _play(emulated, trainings(folder, steps))
    _show(results)
    try:
        if json_file:
            _write(json_file, json.dumps(results.as_json(picture), indent=1) + "\n")
        with picture_file.drawn(picture):
            draw(results, picture)
        _console().print(Text(f"picture of the turns: {picture.resolve()}"), soft_wrap=True)  # it may look like markup
    finally:
        for failure in results.failures():
            click.echo(f"hocket demo: {failure}", err=True)
    sys.exit(1 if results.failures() else 0)


def _play(emulated: bool, trainings):
    """Plays it with live progress."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    from hocket.demo.play import TrainingFailed, play
    from hocket.demo.stage import Stage

    columns = (TextColumn("{task.description:40}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns) as shown, Stage(emulated) as stage:
        bars = {
            (act, training.name): shown.add_task(f"{training.title}, {act}", total=training.steps, start=False)
            for act in ("alone", "together")
            for training in trainings
        }

        def progress(act: str, done: dict[str, int]) -> None:
            for name, steps in done.items():
                if (act, name) in bars:
                    shown.start_task(bars[act, name])
                    shown.update(bars[act, name], completed=steps)

        try:
            return play(stage, trainings, progress)
        except TrainingFailed as error:
            raise click.ClickException(str(error)) from None


def _write(file: Path, text: str) -> None:
    try:
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        raise click.ClickException(f"cannot write {file}: {error.strerror}.") from None


def _console():
    from rich.console import Console

    return Console(width=None if sys.stdout.isatty() else 140)  # a file or a pipe has no width to obey


def _show(results) -> None:
    from hocket.demo.results import sentences, table

    console = _console()
    console.print()
    console.print(table(results))
    for sentence in sentences(results):
        console.print(sentence, highlight=False)
