"""Jobs in C++ (tests/client/memory_job.cc) beside each other on one small emulated device, for tests that kill them.

Each knows every byte that it has and looks at all of them in each step, so one that ends with status 0 has lost
nothing. The daemon is started by the first of them. Nothing here sleeps: a job's steps are bytes on a pipe.
"""

from __future__ import annotations

import json
import os
import pathlib
import random
import selectors
import shutil
import signal
import subprocess
import tempfile
from typing import Any

PATIENCE = 120.0  # seconds without any step after which something hangs; a bound, not a pace


class Wrong(Exception):
    """Something hung, was lost or is wrong."""


class Job:
    def __init__(self, node: Node, name: str, steps: int, workers: int) -> None:
        self.name, self.steps, self._node = name, 0, node
        self.process = subprocess.Popen(
            [node.program, name, str(steps), str(workers)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=node.environment,
        )
        assert self.process.stdout
        os.set_blocking(self.process.stdout.fileno(), False)
        node.selector.register(self.process.stdout, selectors.EVENT_READ, self)

    @property
    def pid(self) -> int:
        return self.process.pid

    def hear(self) -> int:
        """Steps made since; 0 at its end. Raises Wrong if it ended badly by itself."""
        assert self.process.stdout
        said = os.read(self.process.stdout.fileno(), 1 << 16)
        self._node.moved += said.count(b"m")
        self.steps += len(said)
        if not said:
            self._end()
            if self.process.returncode:
                raise Wrong(f"lost: {self.name} ended with status {self.process.returncode} by itself: {self.words}")
        return len(said)

    def kill(self) -> None:
        """SIGKILL, and waits for its end."""
        self.process.send_signal(signal.SIGKILL)
        self._end()
        if self.process.returncode not in (0, -signal.SIGKILL):
            raise Wrong(f"lost: {self.name} ended with status {self.process.returncode} by itself: {self.words}")

    def _end(self) -> None:
        assert self.process.stdout and self.process.stderr
        self._node.selector.unregister(self.process.stdout)
        self._node.jobs.remove(self)
        self.process.wait()
        self.words = self.process.stderr.read().decode(errors="replace")[-2000:]
        self.process.stdout.close()
        self.process.stderr.close()


class Node:
    """A runtime folder and an emulated device of its own; ``with`` ends everything and removes both.

    Args:
        build: the CMake build folder that has memory_job and hocketd.
        memory: of the device; less than what all jobs have together (some 1 MiB each), so that bytes are moved.
    """

    def __init__(self, build: pathlib.Path, memory: str, name: str, **environment: str) -> None:
        self.program = build / "tests" / "client" / "memory_job"
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="hk-"))
        self.device = f"{name}-{os.getpid()}"
        outside = {key: value for key, value in os.environ.items() if not key.startswith("HOCKET_")}
        self.environment = {
            **outside,
            "HOCKET_RUNTIME_DIR": str(self.folder),
            "HOCKET_DAEMON": str(build / "coordinator" / "hocketd"),
            "HOCKET_EMULATOR_NAME": self.device,
            "HOCKET_EMULATOR_MEMORY": memory,
            "HOCKET_EMULATOR_GRANULARITY": "64KiB",
            "HOCKET_EMULATOR_CHECK": "1",
            "HOCKET_SWITCH_SHARE": "0.9",  # many hand-overs
            **environment,
        }
        self.selector = selectors.DefaultSelector()
        self.jobs: list[Job] = []
        self.moved = 0  # steps for which memory has come back from the host

    def start(self, name: str, steps: int, workers: int = 0) -> Job:
        job = Job(self, name, steps, workers)
        self.jobs.append(job)
        return job

    def progress(self, steps: int) -> None:
        """Until the jobs have made so many more, or all have ended."""
        while steps > 0 and self.jobs:
            ready = self.selector.select(PATIENCE)
            if not ready:
                raise Wrong(f"hung: no step for {PATIENCE:g} s; {json.dumps(self.ask('status'))}")
            for key, _ in ready:
                if key.data in self.jobs:
                    steps -= key.data.hear()

    def ask(self, command: str, **arguments: Any) -> dict[str, Any]:
        """Asks the daemon; RuntimeError where none answers."""
        from hocket import _control

        return json.loads(_control.control(str(self.folder / "hocketd.sock"), command, json.dumps(arguments), 10000))

    def daemon(self) -> int | None:
        """Its pid; None where none answers."""
        try:
            return self.ask("version")["pid"]
        except (RuntimeError, OSError):
            return None

    def kill_daemon(self) -> bool:
        """Whether there was one to kill."""
        pid = self.daemon()
        if pid is None:
            return False
        os.kill(pid, signal.SIGKILL)
        return True

    def left_behind(self) -> list[str]:
        """Of this device, in /dev/shm: names of files."""
        return sorted(path.name for path in pathlib.Path("/dev/shm").glob(f"*{self.device}*"))

    def __enter__(self) -> Node:
        return self

    def __exit__(self, *_: object) -> None:
        for job in list(self.jobs):
            job.process.kill()
            job._end()
        self.kill_daemon()
        for name in self.left_behind():
            (pathlib.Path("/dev/shm") / name).unlink(missing_ok=True)
        shutil.rmtree(self.folder, ignore_errors=True)


def any_of(draw: random.Random, jobs: list[Job]) -> Job:
    return jobs[draw.randrange(len(jobs))]
