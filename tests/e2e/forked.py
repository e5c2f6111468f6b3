"""Starts programs as forks of a process that has torch imported (fork_server.py): a start costs no import.

That import takes seconds of a processor's time, which most scenes would spend more of than of anything else. One server
for each environment, up to what begins with ``HOCKET_``, and each process that runs tests; it ends with that process.
"""

from __future__ import annotations

import atexit
import collections
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from typing import IO

START = "import sys; sys.path.insert(0, {folder!r}); import fork_server; exec(fork_server.serve())"
ROOM = 1 << 14  # bytes of a command line


def possible(command: Sequence[str]) -> bool:
    """Whether a fork can stand in for it: this interpreter runs a script, a line or a module."""
    if len(command) < 2 or command[0] != sys.executable:
        return False
    return len(command) > 2 if command[1] in ("-c", "-m") else not command[1].startswith("-")


class Process:
    """A fork, with what tests use of subprocess.Popen. Safe for use by several threads."""

    def __init__(self, pid: int, stdin: IO[str], stdout: IO[str], stderr: IO[str]) -> None:
        self.pid, self.stdin, self.stdout, self.stderr = pid, stdin, stdout, stderr
        self.returncode: int | None = None
        self._ended = threading.Event()

    def ended(self, status: int) -> None:
        self.returncode = status
        self._ended.set()

    def poll(self) -> int | None:
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        if not self._ended.wait(timeout):
            raise subprocess.TimeoutExpired(f"process {self.pid}", timeout or 0)
        assert self.returncode is not None
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.returncode is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


class _Server:
    def __init__(self, environment: dict[str, str]) -> None:
        self._connection, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        folder = str(pathlib.Path(__file__).parent)
        command = [sys.executable, "-c", START.format(folder=folder), str(theirs.fileno()), "x" * ROOM]
        self._process = subprocess.Popen(
            command, env=environment, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, start_new_session=True
        )
        theirs.close()
        self._starting = threading.Lock()
        self._known = threading.Condition()
        self._pids: collections.deque[int] = collections.deque()  # of forks whose start() has not heard of them yet
        self._forks: dict[int, Process] = {}
        self._early: dict[int, int] = {}  # how forks ended that start() has not heard of yet
        self._gone = False
        threading.Thread(target=self._hear, daemon=True).start()

    def _hear(self) -> None:
        while message := self._connection.recv(1 << 12):
            said = json.loads(message)
            with self._known:
                if "status" not in said:
                    self._pids.append(said["pid"])
                elif fork := self._forks.pop(said["pid"], None):
                    fork.ended(said["status"])
                else:
                    self._early[said["pid"]] = said["status"]
                self._known.notify_all()
        with self._known:
            self._gone = True
            self._known.notify_all()

    def start(self, command: Sequence[str], environment: Mapping[str, str]) -> Process:
        ends = [os.pipe() for _ in range(3)]
        theirs = [ends[0][0], ends[1][1], ends[2][1]]
        wanted = {"argv": list(command), "environment": dict(environment), "folder": os.getcwd()}
        request = json.dumps(wanted).encode()
        with self._starting:
            socket.send_fds(self._connection, [request], theirs)
            with self._known:
                self._known.wait_for(lambda: self._pids or self._gone)
                if not self._pids:
                    raise RuntimeError(f"the fork server has ended with status {self._process.wait()}")
                pid = self._pids.popleft()
                for end in theirs:
                    os.close(end)
                fork = Process(
                    pid,
                    os.fdopen(ends[0][1], "w", buffering=1),
                    os.fdopen(ends[1][0], "r"),
                    os.fdopen(ends[2][0], "r"),
                )
                if pid in self._early:
                    fork.ended(self._early.pop(pid))
                else:
                    self._forks[pid] = fork
        return fork

    def close(self) -> None:
        self._connection.shutdown(socket.SHUT_RDWR)
        self._process.wait()


_servers: dict[frozenset[tuple[str, str]], _Server] = {}


def start(command: Sequence[str], environment: Mapping[str, str]) -> Process:
    """Starts a ``possible`` command: in this folder, a session of its own, with pipes for its standard streams."""
    fixed = {name: value for name, value in environment.items() if not name.startswith("HOCKET_")}
    for name in ("XDG_CONFIG_HOME", "PYTEST_CURRENT_TEST"):  # nothing that torch imports reads them
        fixed.pop(name, None)
    key = frozenset(fixed.items())
    if key not in _servers:
        if not _servers:
            atexit.register(lambda: [server.close() for server in _servers.values()])
        _servers[key] = _Server(fixed)
    return _servers[key].start(command, environment)


def run(command: Sequence[str], environment: Mapping[str, str], timeout: float) -> subprocess.CompletedProcess[str]:
    """Starts a command and reads what it says to its end. TimeoutExpired, and it is killed, after ``timeout`` s."""
    process = start(command, environment)
    process.stdin.close()
    said = ["", ""]

    def read(i: int, stream: IO[str]) -> None:
        with stream:
            said[i] = stream.read()

    readers = [threading.Thread(target=read, args=pair) for pair in enumerate((process.stdout, process.stderr))]
    for reader in readers:
        reader.start()
    try:
        status = process.wait(timeout)
    except subprocess.TimeoutExpired:
        process.kill()
        raise
    for reader in readers:
        reader.join(timeout)
    return subprocess.CompletedProcess(list(command), status, *said)
