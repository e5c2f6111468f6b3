"""From the end of the other's turn to the first kernel of a job whose bytes had been moved to the host, against a plain
pinned copy of as many bytes in the same step."""

from __future__ import annotations

import contextlib
import pathlib
import sys
import tempfile

from tests.bench import harness

GIB = 1 << 30


def run(quick: bool) -> None:
    if not harness.PLACE.emulated:
        raise RuntimeError("on a GPU the device would have to be filled first; that is not written yet")
    size, repeats = (2 * GIB, 5) if quick else (10 * GIB, 7)
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:

        def worker(role: str) -> harness.Worker:
            program = [sys.executable, "-m", "tests.bench.evicted_job", role, str(size)]
            command = harness.emulate("bench-evicted", str(size + size // 8), program, timing=True)
            log = pathlib.Path(folder) / f"{role}.log"
            return stack.enter_context(harness.Worker(command, {"HOCKET_RUNTIME_DIR": folder}, log))

        stays, pushes = worker("stays"), worker("pushes")
        for each in (stays, pushes):
            each.end()
        ratios, raw = [], []
        for _ in range(repeats + 1):
            pushes.ask()  # it is in its step, and waits for room until the other stands at its door
            stays.begin()
            ended, back = pushes.end(), stays.end()
            raw.append({**ended, **back})
            if back["restored"] > size // 2 and len(raw) > 1:  # in the first, host memory is taken and pinned
                ratios.append((back["first_kernel"] - ended["ended"]) / back["plain"])
    text = f"end of the other's turn to the first kernel of an evicted {size // GIB} GiB job"
    made = harness.figure("evicted", text, ratios, 1.1, "a plain pinned copy of the bytes that came back")
    harness.record("evicted", [made], extra={"raw": raw})
