"""kill -9 in and out of a turn: how long the dead job's kernels run on, when its memory and its turn are back, and that
nobody else's bytes change."""

from __future__ import annotations

import mmap
import pathlib
import signal
import struct
import tempfile
import time
from collections.abc import Iterator

import pytest

from tests.gpu.device import MIB, PATIENCE, SLACK, Device, Monitor, Program

pytestmark = pytest.mark.alone

STILL = 0.3  # seconds without a change, after which the kernels are taken to have ended
QUEUED = 3000  # pieces of work that doomed.py queues: half a minute


class Page:
    """The page into which doomed.py's kernels copy their counter."""

    def __init__(self) -> None:
        # In memory: the kernel lets nobody pin a page of a file that it writes back to a disk.
        with tempfile.NamedTemporaryFile(dir="/dev/shm", prefix="hk-page-", delete=False) as file:
            self.path = pathlib.Path(file.name)
            file.write(bytes(4096))
            file.flush()
            self._bytes = mmap.mmap(file.fileno(), 4096)

    def close(self) -> None:
        self.path.unlink()

    def count(self) -> int:
        return struct.unpack_from("q", self._bytes)[0]


@pytest.fixture
def page() -> Iterator[Page]:
    made = Page()
    yield made
    made.close()


def watch(page: Page, monitor: Monitor, least_free: int, other: Program, killed: float) -> dict[str, float]:
    """Milliseconds after ``killed`` at which the counter stood still, the memory was back, the other had a step."""
    steps, count, changed = len(other.lines), page.count(), killed
    seen: dict[str, float] = {}
    while len(seen) < 2 or time.monotonic() < changed + STILL:
        now = time.monotonic()
        assert other.process.poll() is None, other.story()
        assert now < killed + PATIENCE, f"{PATIENCE} s after the kill only this is back: {seen}"
        if page.count() != count:
            count, changed = page.count(), now
        if "memory" not in seen and monitor.free() >= least_free:
            seen["memory"] = (time.monotonic() - killed) * 1e3
        if "step" not in seen and len(other.lines) > steps:
            seen["step"] = (now - killed) * 1e3
    assert count < QUEUED, "all that was queued ran to its end: nothing was killed in its turn"
    return {"kernels": (changed - killed) * 1e3, **seen}


def test_a_job_killed_in_its_turn_with_kernels_queued(device: Device, page: Page, fact) -> None:
    mib = device.scaled(1024)
    monitor = device.monitor()
    other = device.program("keep", "--mib", device.scaled(256), "--until-told", "--name", "other", "--hold", "1")
    other.expect("step 1")
    at_rest = monitor.free()
    doomed = device.program("doomed", "--mib", mib, "--page", page.path, "--pieces", QUEUED)
    other.go_on()  # the other gives the turn at its next boundary, for which doomed.py waits in its first allocation
    doomed.expect("built")
    while page.count() < 5:
        assert doomed.process.poll() is None, doomed.story()
    assert at_rest - monitor.free() >= mib * MIB
    killed = time.monotonic()
    doomed.signal(signal.SIGKILL)
    seen = watch(page, monitor, at_rest - SLACK, other, killed)
    fact("killed in its turn: its kernels went on for", round(seen["kernels"], 1), "ms")
    fact("killed in its turn: its memory was back after", round(seen["memory"], 1), "ms")
    fact("killed in its turn: the next job had done a step after", round(seen["step"], 1), "ms")
    other.go_on()
    other.expect("kept")
    other.finishes()


def test_a_job_killed_while_it_waits(device: Device, fact) -> None:
    mib = device.scaled(1024)
    monitor = device.monitor()
    at_rest = monitor.free()
    waiting = device.program("keep", "--mib", mib, "--name", "waiting", "--hold", "1", "--until-told")
    waiting.expect("step 1")
    other = device.program("keep", "--mib", device.scaled(256), "--name", "other", "--hold", "1", "--rounds", 4)
    waiting.go_on()  # at its next boundary it gives the turn to the other, which then keeps it
    other.expect("step 1")
    held = monitor.free()
    killed = time.monotonic()
    waiting.signal(signal.SIGKILL)
    memory = monitor.milliseconds_until(lambda free: free >= held + mib * MIB // 2, killed)
    fact("killed while it waits: its memory was back after", round(memory, 1), "ms")
    other.go_on()
    other.expect("kept")
    other.finishes()
    monitor.milliseconds_until(lambda free: free >= at_rest - SLACK, time.monotonic())
