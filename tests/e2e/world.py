"""What the tests here stand on: a World starts programs on an emulated device of its own and reads what they say."""

from __future__ import annotations

import collections
import contextlib
import functools
import json
import os
import pathlib
import queue
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import forked

T = TypeVar("T")
PROGRAMS = pathlib.Path(__file__).parent / "programs"
PATIENCE = 300  # seconds until a test that hangs is given up: on a machine with much else to do nothing hangs by then

# Of programs/train.py. The large one is 18 layers of 744 x 744 + 744 floats, of which AdamW keeps two more copies: 114
# MiB that have to stay.
SMALL = ("--steps", 12, "--layers", 2, "--width", 256)
LARGE = ("--steps", 6, "--layers", 18, "--width", 744)
LARGE_BYTES = 18 * (744 * 744 + 744) * 4 * 3


def installed_daemon() -> str:
    """The coordinator of the package that is installed, whatever the path says in the process that runs the tests."""
    command = [sys.executable, "-c", "from hocket.cli.serve import daemon; print(daemon())"]
    return subprocess.run(command, cwd="/", check=True, capture_output=True, text=True).stdout.strip()


def hocket_command() -> list[str]:
    """The ``hocket`` of the interpreter that runs the tests."""
    beside = pathlib.Path(sys.executable).with_name("hocket")
    found = str(beside) if beside.exists() else shutil.which("hocket")
    if not found:
        raise RuntimeError("no hocket command beside this Python: run scripts/setup, then scripts/test")
    return [found]


@functools.cache
def emulation(*options: str) -> dict[str, str]:
    """What ``hocket emulate`` with these options gives a program's environment."""
    before = {name: value for name, value in os.environ.items() if not name.startswith("HOCKET_")}
    command = [*hocket_command(), "emulate", *options, "--", "env", "--null"]
    said = subprocess.run(command, env=before, check=True, stdout=subprocess.PIPE, text=True).stdout
    after = dict(line.split("=", 1) for line in said.split("\0") if line)
    return {name: value for name, value in after.items() if before.get(name) != value}


def hear_ctrl_c() -> None:
    """A test run in the background ignores Ctrl-C, and its children would too."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


class Program:
    """A process that a test started. Its output is read as it comes; ``expect`` waits for a line."""

    def __init__(
        self, command: Sequence[str], environment: dict[str, str], look: Callable[[], str], fork: bool = False
    ) -> None:
        self.command = list(command)
        self._look = look
        self.process = forked.start(command, environment) if fork else self._popen(environment)
        self.lines: list[str] = []
        self.errors: list[str] = []
        self._new: queue.Queue[str | None] = queue.Queue()
        self._held: collections.deque[str] = collections.deque()
        self._readers = [
            threading.Thread(target=self._read_lines, daemon=True),
            threading.Thread(target=self._read_errors, daemon=True),
        ]
        for reader in self._readers:
            reader.start()

    def _popen(self, environment: dict[str, str]) -> subprocess.Popen[str]:
        return subprocess.Popen(
            self.command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
            text=True,
            bufsize=1,
            start_new_session=True,
            preexec_fn=hear_ctrl_c,
        )

    def _read_lines(self) -> None:
        assert self.process.stdout
        for line in self.process.stdout:
            self.lines.append(line.rstrip("\n"))
            self._new.put(line.rstrip("\n"))
        self._new.put(None)

    def _read_errors(self) -> None:
        assert self.process.stderr
        self.errors.extend(line.rstrip("\n") for line in self.process.stderr)

    def expect(self, start: str) -> str:
        """The next line that begins with ``start``; fails with the program's story when it ends without one."""
        while True:
            try:
                line = self._new.get(timeout=PATIENCE)
            except queue.Empty:
                raise AssertionError(f"no line {start!r} in {PATIENCE} s\n{self.story()}\n{self._look()}") from None
            if line is None:
                self.process.wait()
                raise AssertionError(f"the program ended without a line {start!r}\n{self.story()}")
            if line.startswith(start):
                return line

    def go_on(self) -> None:
        """Lets a program go on that waits for a line."""
        assert self.process.stdin
        self.process.stdin.write("go\n")
        self.process.stdin.flush()

    def signal(self, number: int) -> None:
        self.process.send_signal(number)

    def wait(self) -> int:
        """Its exit status (negative: the signal that ended it)."""
        try:
            status = self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"does not end within {PATIENCE} s\n{self.story()}\n{self._look()}") from None
        for reader in self._readers:
            reader.join(PATIENCE)
        return status

    def finishes(self) -> Program:
        """Waits for its end, which must be a good one."""
        status = self.wait()
        assert status == 0, f"ended with status {status}\n{self.story()}"
        return self

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def counted(self, what: str) -> int:
        """What it says of itself in its last line (``train.py``: turns, steps, spilled_total, restored_total)."""
        found = re.search(rf"{what}=(\d+)", self.lines[-1])
        assert found, self.story()
        return int(found[1])

    @property
    def stderr(self) -> str:
        return "\n".join(self.errors)

    def story(self) -> str:
        said = "\n".join(self.lines[-30:])
        return f"command: {' '.join(self.command)}\n--- said:\n{said}\n--- stderr:\n{self.stderr[-4000:]}"


class Patience:
    """Of a loop that looks again and again: it is given up by the clock, however often it has looked by then."""

    def __init__(self, see: Callable[[], str]) -> None:
        self._see = see
        self._end = time.monotonic() + PATIENCE

    def look(self, what: str) -> None:
        """Before each look for ``what``: fails once that has taken too long."""
        assert time.monotonic() < self._end, f"not in {PATIENCE} s: {what}\n{self._see()}"


class World:
    """A runtime folder (so: a coordinator) and an emulated device of their own."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = folder
        self.memory = "512MiB"
        self.devices = 1
        self.check = True  # uses of memory that no wait has ordered end their program
        self.timing = False  # nothing is computed, and kernels take modelled time
        self.name = f"test-{uuid.uuid4().hex[:12]}"
        self.programs: list[Program] = []
        self.environment = {k: v for k, v in os.environ.items() if not k.startswith("HOCKET_")}
        self.environment |= {
            "HOCKET_RUNTIME_DIR": str(folder / "run"),
            "XDG_CONFIG_HOME": str(folder / "config"),
            # The next job of a scene may take its time to start: its coordinator has not ended meanwhile.
            "HOCKET_GRACE_SECONDS": str(2 * PATIENCE),
            "OMP_NUM_THREADS": "1",
            "PYTHONUNBUFFERED": "1",
            "PYTHONFAULTHANDLER": "1",  # a program that aborts says where
            "PATH": os.path.dirname(sys.executable) + os.pathsep + os.environ.get("PATH", ""),
        }
        if daemon := os.environ.get("HOCKET_DAEMON"):
            self.environment["HOCKET_DAEMON"] = daemon

    def start(self, *command: str, emulated: bool = True, **variables: str) -> Program:
        """Starts a command on the device (or beside it): a program of this Python there is a fork (forked.py)."""
        environment = {**self.environment, **variables, **(self._emulated() if emulated else {})}
        fork = emulated and forked.possible(command) and all(name.startswith("HOCKET_") for name in variables)
        program = Program(command, environment, self.look, fork)
        self.programs.append(program)
        return program

    def _emulated(self) -> dict[str, str]:
        modes = {"--check": self.check, "--timing": self.timing}
        chosen = [mode for mode, is_chosen in modes.items() if is_chosen]
        return emulation("--name", self.name, "--memory", self.memory, "--devices", str(self.devices), *chosen)

    def job(self, program: str, *arguments: object, **variables: str) -> Program:
        """Starts ``programs/<program>.py``, which uses Hocket itself."""
        return self.start(sys.executable, str(PROGRAMS / f"{program}.py"), *map(str, arguments), **variables)

    def run(self, program: str, *arguments: object, **variables: str) -> Program:
        """Starts ``programs/<program>.py`` with ``hocket run``."""
        script = [sys.executable, str(PROGRAMS / f"{program}.py"), *map(str, arguments)]
        return self.start(*hocket_command(), "run", "--", *script, **variables)

    def hocket(self, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """Runs the command line to its end."""
        return subprocess.run(
            [*hocket_command(), *arguments],
            env={**self.environment, **variables},
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )

    def status(self) -> dict:
        answer = self.hocket("status", "--json")
        assert answer.returncode == 0, answer.stderr
        return json.loads(answer.stdout)

    def until_answered(self) -> None:
        """Looks until there is a coordinator."""
        patience = self.patience()
        while self.hocket("status", "--json").returncode != 0:
            patience.look("a coordinator that answers")

    def look(self) -> str:
        """What somebody would look at who sees that nothing goes on."""
        return "\n".join(f"--- hocket {what}:\n{self.hocket(what).stdout[-4000:]}" for what in ("status", "logs"))

    def until(self, name: str, *states: str) -> None:
        """Watches the coordinator until job ``name`` is in one of these states (``waits``, say)."""
        self.until_all(lambda jobs: jobs.get(name) in states, f"{name} in state {' or '.join(states)}")

    def until_all(self, reached: Callable[[dict[str, str]], bool], what: str) -> None:
        """Watches the coordinator until what ``reached`` makes of all jobs' states is true."""
        self._until("state", reached, what)

    def until_why(self, name: str, words: str) -> None:
        """Watches the coordinator until it says these words of why job ``name`` stands where it stands."""
        self._until("why", lambda jobs: words in jobs.get(name, ""), f"{name}: {words}")

    def until_spilled(self, name: str) -> None:
        """Watches the coordinator until bytes of job ``name`` lie on the host."""
        self._watch(
            lambda status: {job["name"]: job["spilled"] for job in status["jobs"]},
            lambda spilled: spilled.get(name, 0) > 0,
            f"{name} spilled",
        )

    def until_waited(self, name: str, seconds: float) -> None:
        """Watches the coordinator until job ``name`` has waited for turns for so long, as the coordinator has it."""
        self._until("waited_s", lambda jobs: jobs.get(name, 0) > seconds, f"{name} has waited for {seconds} s")

    def until_jobs(self, reached: Callable[[dict[str, dict[str, Any]]], bool], what: str) -> dict[str, dict[str, Any]]:
        """Watches the coordinator until what ``reached`` makes of all jobs, by name, is true; the jobs as they were."""
        return self._watch(lambda status: {job["name"]: job for job in status["jobs"]}, reached, what)

    def _until(self, key: str, reached: Callable[[dict[str, Any]], bool], what: str) -> None:
        self._watch(lambda status: {job["name"]: job[key] for job in status["jobs"]}, reached, what)

    def _watch(self, part: Callable[[dict[str, Any]], T], reached: Callable[[T], bool], what: str) -> T:
        watch = self.start(*hocket_command(), "status", "--watch", "--json", "--interval", "0.1", emulated=False)
        patience = self.patience()
        while not reached(seen := part(json.loads(watch.expect("{")))):
            patience.look(f"{what}: {seen}")
        watch.kill()
        return seen

    def patience(self) -> Patience:
        return Patience(self.look)

    def until_link(self, reached: Callable[[dict[str, Any]], bool], what: str) -> None:
        """Watches the coordinator until what ``reached`` makes of its device's link is true."""
        self._watch(lambda status: status["devices"][0]["link"], reached, what)

    def turns(self) -> list[dict]:
        """The turns that the coordinator remembers, first to last."""
        file = self.folder / "turns.json"
        answer = self.hocket("trace", "-o", str(file))
        assert answer.returncode == 0, answer.stderr
        return json.loads(file.read_text())["turns"]

    def losses(self, name: str) -> pathlib.Path:
        return self.folder / f"{name}.losses"

    def close(self) -> None:
        for program in self.programs:
            program.kill()
        self.hocket("stop", "--force")
