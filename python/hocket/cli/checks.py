"""What ``hocket doctor`` looks at. Each check returns findings; none imports torch into this process, starts a
coordinator or changes anything.

A new check: write a function that yields ``Finding``s and name it in ``CHECKS``.
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.metadata
import importlib.util
import os
import resource
import runpy
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from hocket import _config, _coordinator
from hocket._job import REBUILD, Options, allocator_from_environment, load_control, options_from_environment
from hocket._version import __version__
from hocket.cli import common, emulate, serve
from hocket.errors import HocketError, NotBuilt

GIB = 1 << 30
OLDEST_DRIVER = 12000  # as cuDriverGetVersion says it: CUDA 12.0
FEW_FILES = 512
LONGEST_LOAD_S = 120  # from a disk that sleeps, on a machine that is busy
# What a program's own options are read from when it imports hocket (hocket._job.Options).
OPTIONS = tuple(f"HOCKET_{option.name.upper()}" for option in dataclasses.fields(Options))


@dataclasses.dataclass(frozen=True)
class Finding:
    """One thing that was found: all is ``well``, a ``note``, or a ``problem`` that keeps Hocket from working."""

    level: str
    what: str
    advice: str = ""


def well(what: str) -> Finding:
    return Finding("well", what)


def note(what: str, advice: str = "") -> Finding:
    return Finding("note", what, advice)


def problem(what: str, advice: str) -> Finding:
    return Finding("problem", what, advice)


def installation() -> Iterator[Finding]:
    try:
        load_control()
    except NotBuilt as error:
        yield problem(f"Hocket {__version__}: {error}", REBUILD)
        return
    program = serve.daemon()
    if os.access(program, os.X_OK):
        yield well(f"Hocket {__version__}, coordinator {program}")
    else:
        yield problem(f"the coordinator's program {program} is missing or may not be run", REBUILD)


def settings() -> Iterator[Finding]:
    """The config file, and the variables that say of a job what it would: what is wrong stops every program."""
    found, mistakes = _config.read()
    for mistake in mistakes:
        if mistake.unknown:
            yield note(f"in the config file, without effect: {mistake}", "Correct it, or take it out.")
        else:
            yield problem(f"in the config file: {mistake}", "Correct it: with it `import hocket` fails.")
    files = [str(path) for path in _config.files() if os.path.exists(path)]
    if files and not mistakes:
        yield well(f"config file {', '.join(files)}: {len(found)} settings")
    for variable in OPTIONS:
        value = os.environ.get(variable, "")
        try:
            options_from_environment({variable: value})
        except ValueError as error:
            said = str(error)
            text = said if said.startswith(variable) else f"{variable}={value!r}: {said}"
            yield problem(text, "Correct or unset it: with it `import hocket` fails.")


def torch() -> Iterator[Finding]:
    found = _torch_version()
    if found is None:
        yield problem(
            "torch is not installed in this environment", "Install torch, then Hocket (it is compiled against torch)."
        )
        return
    version = str(found["__version__"])
    built_for = str(load_control().built_for_torch)
    if built_for != version:
        yield problem(f"torch is {version}, but Hocket was built for {built_for}", REBUILD)
    elif why := why_not_loaded():
        yield problem(f"torch {version} is the one Hocket was built for, but {why}", REBUILD)
    else:
        yield well(f"torch {version}, the one Hocket was built for")
    yield from _autoload()
    yield from _allocator_settings()


def why_not_loaded() -> str:
    """Why a program cannot load what is compiled against torch; "" if it can.

    Tried in a process of its own, without running any of it: a library of the system may have been exchanged since.
    """
    spec = importlib.util.find_spec("hocket._native")
    if spec is None or spec.origin is None:
        return "the part of Hocket that is compiled against it is missing"
    load = "import ctypes, os, sys, torch; ctypes.CDLL(sys.argv[1], os.RTLD_NOW)"
    try:
        tried = subprocess.run(
            [sys.executable, "-c", load, spec.origin],
            env={**os.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"},
            capture_output=True, text=True, check=False, timeout=LONGEST_LOAD_S,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return f"to import it takes longer than {LONGEST_LOAD_S} s"
    said = tried.stderr.strip().splitlines() or [f"exit status {tried.returncode}"]
    return f"a program cannot load the two: {said[-1]}" if tried.returncode else ""


def _torch_version() -> dict[str, Any] | None:
    """What ``torch.version`` says, without importing torch, which takes seconds; None where there is no torch."""
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None:
        return None
    return runpy.run_path(str(Path(spec.origin).with_name("version.py")))


def _autoload() -> Iterator[Finding]:
    if os.environ.get("TORCH_DEVICE_BACKEND_AUTOLOAD") == "0":
        yield problem(
            "TORCH_DEVICE_BACKEND_AUTOLOAD=0: PyTorch does not load Hocket, so `hocket run` does nothing",
            "Unset it, or write `import hocket` and the one line into the program.",
        )
    names = {entry.name for entry in importlib.metadata.entry_points(group="torch.backends")}
    if "hocket" not in names:
        yield problem("PyTorch will not find Hocket: its entry point torch.backends is not installed", REBUILD)


def _allocator_settings() -> Iterator[Finding]:
    try:
        chosen = allocator_from_environment()
    except ValueError as error:
        yield problem(str(error), "Correct or unset it: with it `import hocket` fails.")
        return
    if chosen == "off":
        yield note("HOCKET_ALLOCATOR=off: jobs take turns, but their memory stays on the device")
        return
    if chosen == "native":
        yield note("HOCKET_ALLOCATOR=native: PyTorch keeps its own allocator, over memory that Hocket moves")
        return
    for variable in ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"):
        if value := os.environ.get(variable):
            yield note(
                f"{variable}={value}: most of PyTorch's options have no effect on Hocket's allocator "
                "(a job names those that have none)",
                "HOCKET_ALLOCATOR=native keeps PyTorch's own.",
            )


def device() -> Iterator[Finding]:
    emulated = os.environ.get("HOCKET_EMULATOR_NAME")
    if not emulate.RUNTIME.exists():
        yield problem(f"the emulated GPU's libraries are missing: {emulate.RUNTIME}", REBUILD)
    elif why := emulate.why_not_loaded():
        yield note(f"hocket emulate: {why}")
    probe = load_control().probe_driver()
    yield from _driver(probe["version"])
    if not probe["found"]:
        yield note(
            f"no GPU can be used: {(probe['reason'].splitlines() or ['the driver names none'])[0]}",
            "Try Hocket on the emulated GPU: hocket emulate -- python train.py. For a GPU, install NVIDIA's driver.",
        )
        return
    if emulated:
        yield note(f"this is an emulated GPU (named {emulated}): nothing measured here speaks of a real one")
    for i, found in enumerate(probe["devices"]):
        if found["alone"] and not _served_by_mps():
            why, _, advice = found["alone"].partition("\n")
            yield problem(f"device {i}: {found['name']}, {_size(found['capacity'])}; {why}", advice.strip())
            continue
        free = "served by MPS" if found["alone"] else f"of which {_size(found['free'])} are free"
        yield well(f"device {i}: {found['name']}, {_size(found['capacity'])}, {free}")


def _served_by_mps() -> bool:
    """NVIDIA's MPS is the one process then, and its clients share the device."""
    return os.path.exists(os.path.join(os.environ.get("CUDA_MPS_PIPE_DIRECTORY", "/tmp/nvidia-mps"), "control"))


def _driver(version: int) -> Iterator[Finding]:
    """``version`` as cuDriverGetVersion says it; 0 where there is no driver: the device's check says that."""
    if version == 0:
        return
    torch = _torch_version() or {}
    # A driver runs everything that was compiled for a CUDA of its own major version or an older one.
    needed = int(float(torch.get("cuda") or 0)) * 1000
    if version >= max(needed, OLDEST_DRIVER):
        yield well(f"driver of CUDA {_cuda(version)}")
        return
    who = f"torch {torch['__version__']}" if needed > OLDEST_DRIVER else "Hocket"
    older = ", or install a torch for this CUDA and then Hocket again" if version >= OLDEST_DRIVER else ""
    yield problem(
        f"the driver is too old: it is of CUDA {_cuda(version)}, and {who} needs {_cuda(max(needed, OLDEST_DRIVER))} "
        "or newer",
        f"Update NVIDIA's driver{older}.",
    )


def _cuda(version: int) -> str:
    return f"{version // 1000}.{version % 1000 // 10}"


def coordinator() -> Iterator[Finding]:
    path = str(load_control().socket_path())
    try:
        status = _coordinator.ask_if_it_runs("status", path, timeout_ms=10_000)
    except (HocketError, ValueError) as error:
        yield problem(f"no answer: {error}", "Until then jobs run without taking turns.")
        return
    if status is None:
        yield well(f"no coordinator runs at {path}: the first job starts one")
    else:
        daemon = status["daemon"]
        yield well(f"a coordinator runs at {path} (pid {daemon['pid']}, {len(status['jobs'])} jobs)")
        if daemon["version"] != __version__:
            yield note(
                f"that coordinator is version {daemon['version']}, this is {__version__}: they understand each other",
                "hocket restart replaces it by this one, while jobs run.",
            )
    yield from _others_seen((status["daemon"]["pid"], status["daemon"].get("epoch")) if status else None)
    for other in (f"/tmp/hocket-{os.geteuid()}/hocketd.sock", "/run/hocket/hocketd.sock"):
        if other != path and _answers(other):
            yield note(
                f"a second coordinator runs at {other}: jobs of the two do not take turns with each other",
                f"End that one when its jobs have ended: HOCKET_RUNTIME_DIR={os.path.dirname(other)} hocket stop",
            )


def _others_seen(own: tuple[int, int] | None) -> Iterator[Finding]:
    """Coordinators that give turns on a device, and are not ours: another user's, or in another folder or container."""
    seen: dict[tuple[int, int, int], list[str]] = {}
    for other in load_control().coordinators():
        if (other["pid"], other["epoch"]) != own:
            seen.setdefault((other["uid"], other["pid"], other["epoch"]), []).append(other["device"])
    for (uid, pid, _), devices in seen.items():
        yield note(
            f"another coordinator, of uid {uid} (pid {pid}), gives turns on {', '.join(devices)}: between its jobs and "
            "yours the driver time-slices",
            common.one_for_both(os.geteuid(), uid),
        )


def _answers(path: str) -> bool:
    try:
        return _coordinator.ask_if_it_runs("version", path, timeout_ms=2000) is not None
    except (HocketError, ValueError):
        return False


def limits() -> Iterator[Finding]:
    locked, _ = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    if locked != resource.RLIM_INFINITY and locked < 8 * GIB:
        yield note(
            f"locked memory is limited to {_size(locked)} (ulimit -l): spilled memory beyond it is copied more slowly",
            "Raise memlock in /etc/security/limits.conf, or start a container with --ulimit memlock=-1.",
        )
    files, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if files < FEW_FILES:  # docs/decisions/0040
        unlimited = most == resource.RLIM_INFINITY
        advice = f"ulimit -n {4096 if unlimited else min(4096, most)}"
        if not unlimited and most < FEW_FILES:
            advice = "Raise nofile in /etc/security/limits.conf, or start a container with --ulimit nofile=4096."
        yield note(
            f"only {files} open files are allowed (ulimit -n): a job may need 256 for a moment on each device, beside "
            "its own; without them it uses less of the memory that jobs share",
            advice,
        )
    maps = _number("/proc/sys/vm/max_map_count")
    if maps is not None and maps < 65530:
        yield note(f"vm.max_map_count is {maps}: large jobs may need more mappings", "sysctl -w vm.max_map_count=65530")


def host_memory() -> Iterator[Finding]:
    available = _meminfo("MemAvailable")
    if available is None:
        yield note("how much host memory is available is not known: /proc/meminfo does not say it", "Mount /proc.")
    else:
        yield _host_memory(available)
    try:
        shared = os.statvfs("/dev/shm")
    except OSError as error:
        yield note(
            f"/dev/shm cannot be used ({error.strerror}): DataLoader workers will fail",
            "Mount a tmpfs there, or start the container with --shm-size=1g.",
        )
        return
    free = shared.f_bavail * shared.f_frsize
    if free < 64 << 20:
        yield note(
            f"/dev/shm has {_size(free)} free: DataLoader workers may fail",
            "Free some, or start a container with --shm-size=1g.",
        )


def _host_memory(available: int) -> Finding:
    group = _number("/sys/fs/cgroup/memory.max")
    if group is not None:
        used = _number("/sys/fs/cgroup/memory.current") or 0
        available = min(available, max(0, group - used))
    text = f"host memory: {_size(available)} available for what is spilled"
    if available < 2 * GIB:
        return note(text, "Little room: jobs that do not fit together wait for each other instead of moving.")
    return well(text)


def _number(path: str) -> int | None:
    try:
        return int(Path(path).read_text())
    except (OSError, ValueError):
        return None


def _meminfo(field: str) -> int | None:
    with contextlib.suppress(OSError):
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith(field + ":"):
                return int(line.split()[1]) << 10
    return None


def _size(count: int) -> str:
    return str(load_control().format_bytes(count))


CHECKS: tuple[Callable[[], Iterator[Finding]], ...] = (
    installation, settings, torch, device, coordinator, limits, host_memory,
)  # fmt: skip


def run_all() -> Iterator[Finding]:
    """All findings, in order. A part that is missing altogether ends the list: the rest needs it."""
    for check in CHECKS:
        for finding in check():
            yield finding
            if check is installation and finding.level == "problem":
                return
