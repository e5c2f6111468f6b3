"""What NVIDIA's own ways of dividing a GPU make of Hocket: jobs under MPS, jobs on MIG instances."""

from __future__ import annotations

import pathlib
import subprocess
import sys
import tempfile
import time

import pytest

from tests.gpu.device import Device

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
