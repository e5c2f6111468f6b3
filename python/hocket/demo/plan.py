"""What the demo runs. Sizes are chosen so that on the emulated GPU each fits alone and both together do not."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path

EMULATED_MEMORY = 168 << 20
# Of the time, for hand-overs that move bytes; far more than the default, so that a short show has turns to see.
SWITCH_SHARE = 0.5


@dataclasses.dataclass(frozen=True)
class Training:
    """One of the examples, with the options that make it the demo's size."""

    name: str  # of its job
    title: str
    script: Path
    options: tuple[str, ...]
    steps: int

    def command(self, losses: Path, report: Path) -> list[str]:
        files = ["--losses", str(losses), "--report", str(report)]
        return [sys.executable, str(self.script), "--steps", str(self.steps), *self.options, *files]


def find_examples(given: Path | None) -> Path | None:
    """The folder with train_gpt.py: as given, or in the current folder, or beside the package's source."""
    package = Path(__file__).resolve().parents[1]
    places = [given] if given else [Path.cwd() / "examples", package / "examples", package.parents[1] / "examples"]
    return next((place for place in places if (place / "train_gpt.py").exists()), None)


def trainings(examples: Path, steps: int | None) -> list[Training]:
    gpt = ("--width", "384", "--layers", "4", "--heads", "6", "--batch", "8")
    digits = ("--width", "128", "--batch", "64")
    return [
        Training("gpt", "a small GPT on Shakespeare", examples / "train_gpt.py", gpt, steps or 20),
        Training("digits", "a CNN on handwritten digits", examples / "train_digits.py", digits, steps or 60),
    ]
