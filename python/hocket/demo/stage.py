"""Where the demo plays: a runtime folder (so: a coordinator) of its own, and an emulated device or a GPU."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
import uuid
from pathlib import Path
from types import TracebackType

from hocket import _coordinator
from hocket.cli import emulate, serve
from hocket.demo.plan import EMULATED_MEMORY, SWITCH_SHARE, Training
from hocket.errors import HocketError


class Stage:
    """Use as a context manager: on the way out, what was started is ended."""

    def __init__(self, emulated: bool) -> None:
        self.emulated = emulated
        self._folder = tempfile.TemporaryDirectory(prefix="hocket-demo-")
        self.folder = Path(self._folder.name)
        self._environment = {**os.environ, "HOCKET_RUNTIME_DIR": str(self.folder / "run")}
        for variable in ("HOCKET_RUN", "HOCKET_NAME"):
            self._environment.pop(variable, None)
        self._processes: list[subprocess.Popen[str]] = []

    def __enter__(self) -> Stage:
        os.environ["HOCKET_RUNTIME_DIR"] = self._environment["HOCKET_RUNTIME_DIR"]
        flags = [f"--switch-share={SWITCH_SHARE}", "--grace-seconds=600"]
        subprocess.run([serve.daemon(), *flags], env=self._environment, check=True)
        self.new_device()
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        for process in self._processes:
            if process.poll() is None:
                process.kill()
                process.wait()
        with contextlib.suppress(HocketError):  # it had ended already
            _coordinator.end(force=True)
        self._folder.cleanup()

    def new_device(self) -> None:
        """The next programs find an emulated device that nobody has used."""
        if self.emulated:
            name = f"demo-{uuid.uuid4().hex[:8]}"
            self._environment |= emulate.variables(name, EMULATED_MEMORY, 1, timing=False, check=False)

    def start(self, training: Training, act: str) -> subprocess.Popen[str]:
        """Starts a training; its losses and report are files of ``act``; its output goes to a log there."""
        command = training.command(self.losses(training, act), self.report(training, act))
        log = open(self.log(training, act), "w", encoding="utf-8")  # noqa: SIM115  (the process keeps it)
        process = subprocess.Popen(command, env=self._environment, stdout=log, stderr=log, text=True)
        log.close()
        self._processes.append(process)
        return process

    def start_monitor(self) -> subprocess.Popen[str]:
        """A process that prints the largest use of the device when its standard input ends."""
        process = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("monitor.py"))],
            env=self._environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._processes.append(process)
        return process

    def losses(self, training: Training, act: str) -> Path:
        return self.folder / f"{act}-{training.name}.losses"

    def report(self, training: Training, act: str) -> Path:
        return self.folder / f"{act}-{training.name}.json"

    def log(self, training: Training, act: str) -> Path:
        return self.folder / f"{act}-{training.name}.log"
