"""What NVIDIA's own ways of dividing a GPU make of Hocket: jobs under MPS, jobs on MIG instances."""

from __future__ import annotations

import pathlib
import subprocess
import sys
import tempfile
import time

import pytest

from tests.gpu.device import Device, Program

pytestmark = pytest.mark.alone

STEPS = 20
HOW = ("--kind", "cnn", "--size", "small", "--steps", STEPS)


def two_trainings(device: Device, policy: str, *variables: dict[str, str]) -> float:
    """Trains twice side by side, each with its own variables; seconds from when both are built until both are done."""
    jobs = [
        device.program("train", *HOW, "--losses", device.losses(str(number)), **own)
        for number, own in enumerate(variables)
    ]
    for job in jobs:
        job.expect("built")
    assert device.hocket("policy", policy).returncode == 0
    begin = time.monotonic()
    for job in jobs:
        job.finishes()
    return time.monotonic() - begin


def same_losses(device: Device) -> bool:
    alone, *others = (device.losses(name).read_text() for name in ("alone", "0", "1"))
    return len(alone.split()) == STEPS and all(other == alone for other in others)


@pytest.mark.needs("mps")
def test_two_jobs_under_mps_train_the_same(device: Device, fact) -> None:
    device.program("train", *HOW, "--plain", "--losses", device.losses("alone")).finishes()
    sliced = two_trainings(device, "pack", {}, {})
    with tempfile.TemporaryDirectory(prefix="mps-") as folder:
        service = device.start(sys.executable, "-m", "tests.gpu.programs.mps", folder, emulated=False)
        service.expect("serving")
        through = {"CUDA_MPS_PIPE_DIRECTORY": folder}
        together = two_trainings(device, "pack", through, through)
        assert service.process.stdin
        service.process.stdin.close()
        service.finishes()
    assert same_losses(device)
    fact("two small trainings under pack, with MPS / without", round(together / sliced, 3))


FAKE_MPS = """#!/bin/sh
echo "$*|$CUDA_MPS_LOG_DIRECTORY" >> "$CUDA_MPS_PIPE_DIRECTORY/told"
if [ "$1" = -d ]; then
  tail -f /dev/null & echo $! > "$CUDA_MPS_PIPE_DIRECTORY/pid"
else
  cat >> "$CUDA_MPS_PIPE_DIRECTORY/told"
  kill "$(cat "$CUDA_MPS_PIPE_DIRECTORY/pid")"
fi
"""


def mps(device: Device, folder: pathlib.Path, tool: str) -> Program:
    """programs/mps.py, where ``tool`` is the shell script that is there in place of NVIDIA's."""
    path = folder / "nvidia-cuda-mps-control"
    path.write_text(tool)
    path.chmod(0o755)
    program = ("-m", "tests.gpu.programs.mps", str(folder))
    return device.start(sys.executable, *program, emulated=False, PATH=f"{folder}:/bin:/usr/bin")


def test_mps_serves_in_its_folder_until_nobody_needs_it(device: Device, tmp_path: pathlib.Path) -> None:
    service = mps(device, tmp_path, FAKE_MPS)
    service.expect("serving")
    assert service.process.stdin
    service.process.stdin.close()
    service.finishes()  # and what it had started, which wrote to the same pipe
    assert (tmp_path / "told").read_text() == f"-d|{tmp_path}\n|{tmp_path}\nquit -t 5\n"


def test_where_mps_cannot_be_started_that_is_said(device: Device, tmp_path: pathlib.Path) -> None:
    service = mps(device, tmp_path, "#!/bin/sh\nexit 1\n")
    assert service.wait() == 1
    assert service.lines == [] and service.stderr.startswith("nvidia-cuda-mps-control -d: ")


def mig_instances() -> list[str]:
    """Their UUIDs, as nvidia-smi lists them."""
    listed = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, check=True).stdout
    return [word.rstrip(")") for word in listed.split() if word.startswith("MIG-")]


@pytest.mark.needs("mig")
def test_each_mig_instance_is_a_device_of_its_own(device: Device, fact) -> None:
    instances = mig_instances()
    places = [{"CUDA_VISIBLE_DEVICES": instance} for instance in (instances * 2)[:2]]
    alone = device.program("train", *HOW, "--plain", "--losses", device.losses("alone"), **places[0])
    alone.finishes()
    jobs = [
        device.program("keep", "--mib", 16, "--until-told", "--name", str(n), **own) for n, own in enumerate(places)
    ]
    for job in jobs:
        job.expect("step 1")
    assert len(device.status()["devices"]) == len({place["CUDA_VISIBLE_DEVICES"] for place in places})
    for job in jobs:
        job.go_on()
        job.finishes()
    two_trainings(device, "fair", *places)
    assert same_losses(device)
    fact("MIG instances", len(instances))


def test_the_list_of_instances_is_read(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool = tmp_path / "nvidia-smi"
    tool.write_text(
        "#!/bin/sh\necho 'GPU 0: NVIDIA H100 (UUID: GPU-aa)'\n"
        "echo '  MIG 3g.40gb     Device  0: (UUID: MIG-bb)'\necho '  MIG 3g.40gb     Device  1: (UUID: MIG-cc)'\n"
    )
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    assert mig_instances() == ["MIG-bb", "MIG-cc"]
