"""What a run has come to, in build/gpu-check/progress.json, so that a later one can go on from there (--go-on)."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

from tests.bench import source
from tests.gpu.check.build import WORK
from tests.gpu.check.parts import Part
from tests.gpu.check.runner import Lines

FILE = WORK / "progress.json"


def of(*how: object) -> str:
    """What two runs must have in common for one to go on from the other: the sources, and how they are run."""
    return " ".join(map(str, (source.commit(), source.fingerprint(), *how)))


def save(what: str, about: dict[str, Any], lines: Lines) -> None:
    FILE.write_text(json.dumps({"of": what, "about": about, "parts": lines}) + "\n")


def load(what: str) -> tuple[dict[str, Any], Lines]:
    """As ``save`` was given them by the last run; both are empty where that was one of something else."""
    said = json.loads(FILE.read_text()) if FILE.exists() else {}
    return (said["about"], said["parts"]) if said.get("of") == what else ({}, {})


def still_to_do(parts: list[Part], before: Lines, named: bool) -> list[Part]:
    """Those that have not come to an end; where they are ``named``, those that failed, too. One that was stopped comes
    after those that were not reached, and has twice its time."""

    def was(part: Part) -> str:
        return "needed" if part.needed else before.get(part.name, {}).get("outcome", "")

    ended = ("done",) if named else ("done", "failed")
    left = sorted((part for part in parts if was(part) not in ended), key=lambda part: was(part) == "stopped")
    return [dataclasses.replace(part, most=2 * part.most) if was(part) == "stopped" else part for part in left]
