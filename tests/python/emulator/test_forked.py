"""A fork that stands in for a process of its own (e2e/forked.py) says the same of itself."""

from __future__ import annotations

import json
import os
import pathlib
import select
import signal
import subprocess
import sys

import forked
import pytest
from world import hear_ctrl_c

SAYS = """
import json, os, signal, sys
said = {"torch before": "torch" in sys.modules, "__name__": __name__, "__file__": globals().get("__file__")}
said["globals"] = sorted(name for name in globals() if name not in ("said", "__file__", "__cached__"))
import torch
import torch.nn as nn
said |= {
    "autoload": "hocket.emulator" in sys.modules,
    "spec": [torch.__spec__.name, torch.__spec__.origin, type(torch.__loader__).__name__, nn.Linear.__module__],
    "argv": sys.argv, "orig_argv": sys.orig_argv, "path": sys.path[0], "finders": len(sys.meta_path),
    "folder": os.getcwd(),
    "cmdline": open("/proc/self/cmdline").read().rstrip("\\0").split("\\0"),
    "environment": {k: v for k, v in os.environ.items() if k.startswith("HOCKET_")},
    "session": os.getsid(0) == os.getpid(), "main": sys.modules["__main__"].__name__,
    "interrupt": signal.getsignal(signal.SIGINT) is signal.default_int_handler,
    "threads": len(os.listdir("/proc/self/task")),
    "descriptors": sorted(os.listdir("/proc/self/fd"))[:-1],
}
print(json.dumps(said), flush=True)
print("an error", file=sys.stderr)
match sys.argv[-1]:
    case "exit": sys.exit(3)
    case "raise": raise ArithmeticError("on purpose")
    case "kill": os.kill(os.getpid(), signal.SIGTERM)
    case "read": print(sys.stdin.readline() == "a line\\n", flush=True)
"""


@pytest.fixture
def environment(emulator) -> dict[str, str]:
    values = emulator.environment() | {"HOCKET_OF_THE_TEST": "1", "PYTHONPATH": str(pathlib.Path(__file__).parent)}
    del values["TORCH_DEVICE_BACKEND_AUTOLOAD"]
    return values


@pytest.mark.parametrize(
    ("how", "end"),
    [("script", ""), ("-c", ""), ("-m", ""), ("script", "exit"), ("-m", "raise"), ("-c", "kill"), ("script", "read")],
)
def test_it_says_and_ends_as_a_process_of_its_own(
    environment: dict[str, str], tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, how: str, end: str
) -> None:
    (tmp_path / "says.py").write_text(SAYS)
    monkeypatch.chdir(tmp_path)
    program = {"script": [str(tmp_path / "says.py")], "-c": ["-c", SAYS], "-m": ["-m", "says"]}[how]
    command = [sys.executable, *program, "an argument", *([end] if end else [])]
    assert forked.possible(command)
    alone = subprocess.Popen(
        command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        start_new_session=True, preexec_fn=hear_ctrl_c,
    )  # fmt: skip
    outcomes = []
    for process in (alone, forked.start(command, environment)):
        assert process.stdin and process.stdout and process.stderr
        if end == "read":
            process.stdin.write("a line\n")
            process.stdin.flush()
        lines, errors = process.stdout.read().splitlines(), process.stderr.read().splitlines()
        outcomes.append((json.loads(lines[0]), lines[1:], errors[0], errors[-1], process.wait(300)))
    (alone_said, *alone_ended), (fork_said, *fork_ended) = outcomes
    assert {k: (v, alone_said[k]) for k, v in fork_said.items() if v != alone_said[k]} == {}
    assert fork_ended == alone_ended
    assert outcomes[0][4] == {"": 0, "exit": 3, "raise": 1, "kill": -signal.SIGTERM, "read": 0}[end]


def test_what_says_something_to_the_interpreter_is_no_fork() -> None:
    for command in (["sh", "-c", "true"], [sys.executable], [sys.executable, "-c"], [sys.executable, "-P", "a.py"]):
        assert not forked.possible(command)


def test_the_server_ends_with_whom_it_serves(environment: dict[str, str]) -> None:
    """Killed, too: its socket's end is all that tells."""
    starts = (
        "import os, sys; sys.path.insert(0, sys.argv[1]); import forked;"
        "run = forked.run([sys.executable, '-c', 'import os; print(os.getppid())'], os.environ, 300);"
        "print(run.stdout, flush=True);"
        "os.kill(os.getpid(), 9)"
    )
    folder = str(pathlib.Path(forked.__file__).parent)
    said = subprocess.run([sys.executable, "-c", starts, folder], env=environment, capture_output=True, text=True)
    assert said.returncode == -signal.SIGKILL, said.stderr
    server = int(said.stdout)
    try:
        end = os.pidfd_open(server)
    except ProcessLookupError:
        return
    assert select.select([end], [], [], 300)[0], "the server goes on"
    os.close(end)
