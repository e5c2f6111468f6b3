"""``hocket doctor`` over fakes: each problem with what to do, and whether it counts."""

from __future__ import annotations

import importlib.util
import os
import pathlib
import resource
import types

import fakes
import pytest
from click.testing import CliRunner, Result
from hocket.cli import checks
from hocket.cli.doctor import command
from hocket.errors import HocketError

VERSION = "2.15.0+cu132"


class Machine:
    """What doctor finds; a machine on which all is well until a test changes it."""

    def __init__(self, folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._system = types.SimpleNamespace(**vars(resource))
        self.folder = folder
        self.control = fakes.fake_control(VERSION)
        self.coordinators: dict[str, dict | Exception] = {}
        daemon = folder / "hocketd"
        daemon.write_text("#!/bin/sh\n")
        daemon.chmod(0o755)
        for variable in [v for v in os.environ if v.startswith(("HOCKET_", "TORCH_", "PYTORCH_"))]:
            monkeypatch.delenv(variable)
        monkeypatch.setenv("HOCKET_DAEMON", str(daemon))
        monkeypatch.setenv("HOCKET_CONFIG", str(folder / "config.toml"))
        (folder / "config.toml").write_text("")
        monkeypatch.setattr(checks, "load_control", lambda: self.control)
        monkeypatch.setattr(checks.emulate, "RUNTIME", daemon)
        monkeypatch.setattr(checks, "resource", self._system)
        monkeypatch.setattr(checks, "importlib", self._installed())
        self.why_not_loaded = ""
        monkeypatch.setattr(checks, "why_not_loaded", lambda: self.why_not_loaded)
        monkeypatch.setattr(checks, "_coordinator", types.SimpleNamespace(ask_if_it_runs=self._ask))
        monkeypatch.setattr(checks, "_meminfo", lambda field: 64 << 30)
        monkeypatch.setattr(checks, "_number", lambda path: None)
        monkeypatch.setattr(checks.os, "statvfs", lambda path: types.SimpleNamespace(f_bavail=1 << 20, f_frsize=4096))
        self.locked_memory(resource.RLIM_INFINITY)
        self.torch(VERSION, "13.2")

    def _installed(self) -> types.SimpleNamespace:
        """Stands in for importlib: torch where ``torch()`` put it, and PyTorch finds Hocket."""
        spec = types.SimpleNamespace(origin=str(self.folder / "torch.py"))
        return types.SimpleNamespace(
            util=types.SimpleNamespace(find_spec=lambda name: spec if (self.folder / "version.py").exists() else None),
            metadata=types.SimpleNamespace(entry_points=lambda group: [types.SimpleNamespace(name="hocket")]),
        )

    def torch(self, version: str, cuda: str) -> None:
        (self.folder / "version.py").write_text(f"__version__ = {version!r}\ncuda = {cuda!r}\n")

    def no_torch(self) -> None:
        (self.folder / "version.py").unlink()

    def driver(self, version: int, reason: str = "") -> None:
        devices = [] if reason else [dict(fakes.DEVICE)]
        found = {"found": not reason, "reason": reason, "version": version, "devices": devices}
        self.control.probe_driver = lambda: found  # type: ignore[attr-defined]

    def locked_memory(self, most: int, files: int = 4096) -> None:
        limits = {resource.RLIMIT_NOFILE: files, resource.RLIMIT_MEMLOCK: most}
        self._system.getrlimit = lambda which: (limits[which], 4096 if which == resource.RLIMIT_NOFILE else most)

    def config(self, text: str) -> None:
        (self.folder / "config.toml").write_text(text)

    def coordinator(self, path: str, pid: int, epoch: int = 1) -> None:
        self.coordinators[path] = {"daemon": {"pid": pid, "epoch": epoch, "version": checks.__version__}, "jobs": []}

    def _ask(self, command: str, path: str, timeout_ms: int) -> dict | None:
        answer = self.coordinators.get(path)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def doctor(self) -> Result:
        return CliRunner().invoke(command, catch_exceptions=False)


@pytest.fixture
def machine(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(tmp_path, monkeypatch)


def finding(said: Result, mark: str, what: str) -> str:
    """The advice under the line that begins with ``mark`` and ``what``."""
    lines = said.output.splitlines()
    found = [i for i, line in enumerate(lines) if line.startswith(f"{mark}  {what}")]
    assert len(found) == 1, said.output
    return lines[found[0] + 1].strip() if found[0] + 1 < len(lines) else ""


def test_all_is_well(machine: Machine) -> None:
    said = machine.doctor()
    assert said.exit_code == 0
    assert said.output.splitlines()[-1] == "Everything that Hocket needs is there."
    assert "!!" not in said.output and "--" not in said.output
    finding(said, "ok", f"torch {VERSION}, the one Hocket was built for")
    finding(said, "ok", "driver of CUDA 13.0")
    finding(said, "ok", "device 0: a GPU, 64.0 GiB, of which 60.0 GiB are free")


ALONE = """the compute mode of device 0 lets only one process at a time use it, unless MPS serves it.
  As root: nvidia-smi -i 0 -c DEFAULT"""


def test_a_device_for_one_process_is_a_problem_unless_mps_serves_it(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.driver(13000)
    machine.control.probe_driver()["devices"][0]["alone"] = ALONE  # type: ignore[attr-defined]
    monkeypatch.setenv("CUDA_MPS_PIPE_DIRECTORY", str(machine.folder))
    said = machine.doctor()
    assert said.exit_code == 1
    advice = finding(said, "!!", "device 0: a GPU, 64.0 GiB; the compute mode of device 0 lets only one process")
    assert advice == "As root: nvidia-smi -i 0 -c DEFAULT"
    (machine.folder / "control").touch()
    said = machine.doctor()
    assert said.exit_code == 0
    finding(said, "ok", "device 0: a GPU, 64.0 GiB, served by MPS")


def test_a_second_coordinator_is_named_with_how_to_end_it(machine: Machine) -> None:
    machine.coordinator("/nowhere/hocketd.sock", pid=5)
    machine.coordinator("/run/hocket/hocketd.sock", pid=6)
    said = machine.doctor()
    finding(said, "ok", "a coordinator runs at /nowhere/hocketd.sock (pid 5, 0 jobs)")
    advice = finding(
        said,
        "--",
        "a second coordinator runs at /run/hocket/hocketd.sock: jobs of the two do not take turns with each other",
    )
    assert advice == "End that one when its jobs have ended: HOCKET_RUNTIME_DIR=/run/hocket hocket stop"
    assert said.exit_code == 0, "a note does not count"


def test_other_coordinators_of_a_device_are_named_with_what_to_do(machine: Machine) -> None:
    machine.coordinator("/nowhere/hocketd.sock", pid=5, epoch=1)
    seen = [(os.geteuid(), 5, 1), (os.geteuid(), 5, 2), (os.geteuid() + 1, 7, 1)]
    machine.control.coordinators = lambda: [  # type: ignore[attr-defined]
        {"uid": uid, "pid": pid, "epoch": epoch, "device": f"GPU-{i}"} for uid, pid, epoch in seen for i in range(2)
    ]
    said = machine.doctor()
    own = finding(
        said,
        "--",
        f"another coordinator, of uid {os.geteuid()} (pid 5), gives turns on GPU-0, GPU-1: between "
        "its jobs and yours the driver time-slices",
    )
    assert own.startswith("Let both use one folder")
    other = finding(
        said,
        "--",
        f"another coordinator, of uid {os.geteuid() + 1} (pid 7), gives turns on GPU-0, GPU-1: "
        "between its jobs and yours the driver time-slices",
    )
    assert other == "Root can run one for all users: hocketd --system."
    assert said.output.count("another coordinator") == 2, "its own is not another"
    assert said.exit_code == 0, "a note does not count"


def test_a_coordinator_that_does_not_answer_is_a_problem(machine: Machine) -> None:
    machine.coordinators["/nowhere/hocketd.sock"] = HocketError("no word in 2 s")
    said = machine.doctor()
    assert finding(said, "!!", "no answer: no word in 2 s") == "Until then jobs run without taking turns."
    assert said.exit_code == 1


def test_another_torch_than_it_was_built_for_is_a_problem(machine: Machine) -> None:
    machine.torch("2.12.0+cu130", "13.0")
    said = machine.doctor()
    advice = finding(said, "!!", f"torch is 2.12.0+cu130, but Hocket was built for {VERSION}")
    assert "pip install --no-build-isolation --force-reinstall --no-deps ." in advice
    assert (said.exit_code, said.output.splitlines()[-1]) == (1, "1 problem.")


def test_a_compiled_part_that_does_not_load_is_a_problem(machine: Machine) -> None:
    why = "a program cannot load the two: OSError: libabsl_base.so: cannot open shared object file"
    machine.why_not_loaded = why
    said = machine.doctor()
    assert said.exit_code == 1
    advice = finding(said, "!!", f"torch {VERSION} is the one Hocket was built for, but {why}")
    assert "pip install" in advice


def test_whether_the_compiled_part_loads_is_tried(monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> None:
    part = types.SimpleNamespace(origin=importlib.util.find_spec("_ctypes").origin)  # any library that is sound
    monkeypatch.setattr(checks.importlib.util, "find_spec", lambda name: part)
    assert checks.why_not_loaded() == ""
    part.origin = str(tmp_path / "_native.so")
    pathlib.Path(part.origin).write_bytes(b"\x7fELF")
    why = checks.why_not_loaded()
    assert why.startswith("a program cannot load the two: OSError: ") and part.origin in why


def test_a_config_file_that_is_wrong_is_a_problem_with_its_line(machine: Machine) -> None:
    machine.config('[job]\nweight = "much"\n')
    said = machine.doctor()
    advice = finding(said, "!!", f"in the config file: {machine.folder / 'config.toml'}:2: job.weight is 'much'")
    assert advice == "Correct it: with it `import hocket` fails."
    assert said.exit_code == 1


def test_a_key_of_the_config_file_that_there_is_not_is_a_note(machine: Machine) -> None:
    machine.config("[job]\nwheight = 2\n")
    said = machine.doctor()
    assert "did you mean job.weight?" in said.output
    finding(said, "--", "in the config file, without effect")
    assert said.exit_code == 0


@pytest.mark.parametrize(
    ("variable", "value"),
    [("HOCKET_WEIGHT", "abc"), ("HOCKET_WEIGHT", "-1"), ("HOCKET_PRIORITY", "urgent"), ("HOCKET_MEMORY_LIMIT", "20 G"),
     ("HOCKET_TOTAL_STEPS", "1e"), ("HOCKET_SERVES", "yes")],
)  # fmt: skip
def test_a_variable_with_which_import_hocket_fails_is_a_problem(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, variable: str, value: str
) -> None:
    monkeypatch.setenv(variable, value)
    said = machine.doctor()
    assert finding(said, "!!", f"{variable}={value!r}: ").startswith("Correct or unset it")
    assert said.exit_code == 1


def test_few_open_files_are_a_note(machine: Machine) -> None:
    machine.locked_memory(resource.RLIM_INFINITY, files=1000)
    assert "open files" not in machine.doctor().output, "a job needs 256 at most for the memory that jobs share"
    machine.locked_memory(resource.RLIM_INFINITY, files=256)
    said = machine.doctor()
    assert finding(said, "--", "only 256 open files are allowed (ulimit -n)") == "ulimit -n 4096"
    assert said.exit_code == 0


def test_an_older_coordinator_is_a_note_that_names_restart(machine: Machine) -> None:
    machine.coordinator("/nowhere/hocketd.sock", pid=5)
    machine.coordinators["/nowhere/hocketd.sock"]["daemon"]["version"] = "0.0.1"
    advice = finding(machine.doctor(), "--", "that coordinator is version 0.0.1")
    assert advice.startswith("hocket restart replaces it by this one")


def test_no_torch_is_a_problem(machine: Machine) -> None:
    machine.no_torch()
    said = machine.doctor()
    advice = finding(said, "!!", "torch is not installed in this environment")
    assert advice == "Install torch, then Hocket (it is compiled against torch)."
    assert said.exit_code == 1


def test_an_allocator_that_there_is_not_is_a_problem(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOCKET_ALLOCATOR", "natve")
    said = machine.doctor()
    advice = finding(said, "!!", "HOCKET_ALLOCATOR='natve': it must be one of hocket, native, off")
    assert advice.startswith("Correct or unset it")
    assert said.exit_code == 1


def test_options_of_pytorchs_allocator_are_a_note_only_where_it_is_not_used(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTORCH_ALLOC_CONF", "max_split_size_mb:128")
    assert "have no effect on Hocket's allocator" in machine.doctor().output
    monkeypatch.setenv("HOCKET_ALLOCATOR", "native")
    assert "have no effect" not in machine.doctor().output


def test_no_gpu_is_a_note_that_names_the_emulated_one(machine: Machine) -> None:
    machine.driver(0, "no CUDA driver: libcuda.so.1: cannot open shared object file\n  more")
    said = machine.doctor()
    advice = finding(said, "--", "no GPU can be used: no CUDA driver: libcuda.so.1: cannot open shared object file")
    assert "hocket emulate -- python train.py" in advice and "install NVIDIA's driver" in advice
    assert "driver of CUDA" not in said.output
    assert said.exit_code == 0


def test_a_driver_too_old_for_torch_is_a_problem_with_both_versions(machine: Machine) -> None:
    machine.driver(12080, "the CUDA driver does not start: cuInit")
    said = machine.doctor()
    advice = finding(said, "!!", f"the driver is too old: it is of CUDA 12.8, and torch {VERSION} needs 13.0 or newer")
    assert advice == "Update NVIDIA's driver, or install a torch for this CUDA and then Hocket again."
    assert said.exit_code == 1


def test_a_driver_too_old_for_hocket_is_a_problem_too(machine: Machine) -> None:
    machine.torch(VERSION, "11.8")
    machine.driver(11080, "the CUDA driver library libcuda.so.1 has no function cuMemCreate.")
    said = machine.doctor()
    advice = finding(said, "!!", "the driver is too old: it is of CUDA 11.8, and Hocket needs 12.0 or newer")
    assert advice == "Update NVIDIA's driver."
    assert said.exit_code == 1


def test_a_driver_newer_than_torch_is_well(machine: Machine) -> None:
    machine.torch(VERSION, "12.9")
    machine.driver(13010)
    finding(machine.doctor(), "ok", "driver of CUDA 13.1")


def test_little_locked_memory_is_a_note_with_how_to_raise_it(machine: Machine) -> None:
    machine.locked_memory(64 << 20)
    said = machine.doctor()
    advice = finding(
        said, "--", "locked memory is limited to 64.0 MiB (ulimit -l): spilled memory beyond it is copied more slowly"
    )
    assert "memlock in /etc/security/limits.conf" in advice and "--ulimit memlock=-1" in advice
    assert said.exit_code == 0


def test_no_gpu_for_no_reason_is_a_note_too(machine: Machine) -> None:
    machine.driver(13000)
    found = machine.control.probe_driver() | {"found": False, "devices": []}
    machine.control.probe_driver = lambda: found  # type: ignore[attr-defined]
    assert "no GPU can be used: the driver names none" in machine.doctor().output


def test_a_container_without_proc_and_shared_memory_is_a_note_each(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def nothing(_: str) -> None:
        raise FileNotFoundError(2, "No such file or directory")

    monkeypatch.setattr(checks.os, "statvfs", nothing)
    monkeypatch.setattr(checks, "_meminfo", lambda _: None)
    said = machine.doctor()
    assert said.exit_code == 0
    assert "--shm-size=1g" in finding(said, "--", "/dev/shm cannot be used (No such file or directory)")
    assert finding(said, "--", "how much host memory is available is not known") == "Mount /proc."


def test_what_cannot_be_preloaded_is_a_note(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks.emulate, "LIBRARIES", pathlib.Path("/my programs/hocket"))
    assert "hocket emulate: the emulated GPU's libraries lie in '/my programs/hocket'" in machine.doctor().output
