"""A Python with torch imported, whose forks become the programs that tests ask for (forked.py).

    python -c "import fork_server; exec(fork_server.serve())" DESCRIPTOR ROOM

A fork runs its program as ``__main__`` to the interpreter's own end, with the arguments, the environment, the standard
streams and the command line (as /proc shows it) that it would have had by itself. Its first ``import torch`` does what
it does elsewhere but for the seconds: ``sys.modules`` has no torch before, and PyTorch's entry points are called at its
end. What a fork has not: what PyTorch reads from the environment while it is imported, and an address space of its own
making (all forks of a server have torch in the same places).

Not multiprocessing's own fork server, which can preload torch too, because what that forks runs a function, not a
program: with the server's environment, standard streams and command line in /proc (tests set the first, read and write
the second, and Hocket names jobs by the third); with the arguments of whoever asked; and to an os._exit, so nothing
happens that a program does at the interpreter's end, and its exit status is not what the interpreter would have ended
with.

DESCRIPTOR is a socket (SOCK_SEQPACKET). A request is JSON, ``argv`` (``[python, SCRIPT, ...]``, or ``-c CODE`` or ``-m
MODULE`` in the script's place), ``environment`` and ``folder``, with three descriptors: the standard streams. Answers:
``{"pid": PID}``; at a program's end ``{"pid": PID, "status": STATUS}``, as subprocess has it. At the end of the socket
the server ends; its forks do not.
ROOM is as long as a command line may be.
"""

from __future__ import annotations

import ctypes
import gc
import importlib.abc
import importlib.machinery
import json
import os
import select
import signal
import socket
import sys
import types
from collections.abc import Sequence
from importlib.machinery import SourceFileLoader

REQUEST = 1 << 17  # bytes at most


class _Torch(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Gives a program the torch that is there already, at its first import."""

    def __init__(self, torch: types.ModuleType) -> None:
        self._torch = torch
        self._spec = torch.__spec__

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name != "torch":
            return None
        sys.meta_path.remove(self)
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        return self._torch

    def exec_module(self, module: types.ModuleType) -> None:
        module.__spec__ = self._spec
        if self._spec:
            module.__loader__ = self._spec.loader
        if module._is_device_backend_autoload_enabled():
            module._import_device_backends()


def _say_command_line(argv: list[str]) -> None:
    """Puts ``argv`` where the kernel reads /proc/self/cmdline; what is left of the room is zeros."""
    with open("/proc/self/stat", encoding="utf-8") as file:
        fields = file.read().rpartition(")")[2].split()  # from the third on (proc(5))
    start, end = int(fields[48 - 3]), int(fields[49 - 3])
    line = b"".join(os.fsencode(argument) + b"\0" for argument in argv)
    if len(line) > end - start:
        raise ValueError(f"a command line of {len(line)} bytes; there is room for {end - start}")
    ctypes.memmove(start, line.ljust(end - start, b"\0"), end - start)


def _become(argv: list[str], environment: dict[str, str], folder: str, torch: types.ModuleType) -> types.CodeType:
    """In a fork: makes this process the program's; the code that ``__main__`` is to run."""
    os.setsid()
    os.chdir(folder)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.clear()
    os.environ.update(environment)
    _say_command_line(argv)
    sys.orig_argv[:] = argv
    main = sys.modules["__main__"]
    kept = {name: value for name, value in vars(main).items() if name.startswith("__")}
    main.__dict__.clear()
    main.__dict__.update(kept)
    if argv[1] == "-c":
        source, file, sys.argv[:] = argv[2].encode(), "<string>", ["-c", *argv[3:]]
        sys.path[0] = ""
    elif argv[1] == "-m":
        source, file = f"__import__('runpy')._run_module_as_main({argv[2]!r})".encode(), "<string>"
        sys.argv[:] = ["-m", *argv[3:]]
        sys.path[0] = os.getcwd()
    else:
        with open(argv[1], "rb") as script:
            source = script.read()
        file, sys.argv[:] = argv[1], argv[1:]
        sys.path[0] = os.path.dirname(os.path.realpath(file))
        main.__dict__.update(__file__=file, __cached__=None, __loader__=SourceFileLoader("__main__", file))
    for name in ("fork_server", "torch"):
        del sys.modules[name]
    sys.meta_path.insert(0, _Torch(torch))
    return compile(source, file, "exec", dont_inherit=True)


def serve() -> types.CodeType:
    """Serves until the socket ends. Returns in forks only: what they are to run."""
    os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"
    import torch

    connection = socket.socket(fileno=int(sys.argv[1]))
    gc.collect()
    gc.freeze()  # what a fork collects later leaves these pages shared
    ends: dict[int, int] = {}  # the process of each descriptor that tells a fork's end
    while True:
        waits = select.poll()
        for descriptor in (connection.fileno(), *ends):
            waits.register(descriptor, select.POLLIN)
        for descriptor, _ in waits.poll():
            if descriptor in ends:
                os.close(descriptor)
                pid, status = os.waitpid(ends.pop(descriptor), 0)
                connection.send(json.dumps({"pid": pid, "status": os.waitstatus_to_exitcode(status)}).encode())
                continue
            message, streams, _, _ = socket.recv_fds(connection, REQUEST, 3)
            if not message:
                os._exit(0)
            request = json.loads(message)
            pid = os.fork()
            if pid == 0:
                for standard, stream in enumerate(streams):
                    os.dup2(stream, standard)
                for mine in (*ends, *streams, connection.detach()):
                    os.close(mine)
                return _become(request["argv"], request["environment"], request["folder"], torch)
            for stream in streams:
                os.close(stream)
            ends[os.pidfd_open(pid)] = pid
            connection.send(json.dumps({"pid": pid}).encode())
