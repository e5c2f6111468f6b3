"""Runs parts that a test has made up, as scripts/gpu-check runs its own. In a process of its own: all its children end.

    python -m tests.python.gpu_check_scene FOLDER < SCENE

The scene is JSON: ``parts`` as they are made (Part), and ``left``, seconds until the time is up. FOLDER has ``work`` in
place of build/gpu-check, ``out``, and is where the parts' commands find themselves.
"""

from __future__ import annotations

import json
import pathlib
import sys
import time

from tests.gpu.check import build, histories, machine, page, runner
from tests.gpu.check.parts import Part


def main() -> None:
    folder = pathlib.Path(sys.argv[1])
    work, out = folder / "work", folder / "out"
    for place in (work, out):
        place.mkdir(exist_ok=True)
    build.ROOT, build.libraries = folder, lambda: ""
    runner.LOG, machine.FILE, histories.FILE = work / "log.txt", work / "machine.json", work / "histories.tar.gz"
    page.RECORDS, page.RESULTS = (work / "tests.jsonl",), work / "results"
    runner.LOG.touch()
    scene = json.load(sys.stdin)
    parts = [Part(**{**part, "appends": tuple(map(pathlib.Path, part.get("appends", ())))}) for part in scene["parts"]]
    lines: runner.Lines = {}
    runner.adopt_orphans()
    deadline = time.monotonic() + runner.RESERVE + scene["left"]
    runner.check(parts, deadline, lines, lambda: page.write(out, runner.LOG, list(lines.values()), {}))
    page.write(out, runner.LOG, list(lines.values()), {})


if __name__ == "__main__":
    main()
