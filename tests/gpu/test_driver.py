"""What Hocket relies on in a CUDA driver, over the driver that is there; and what it could use if it were."""

from __future__ import annotations

import os
import pathlib
import subprocess

import pytest

from tests.gpu.device import Device, Program, data

pytestmark = pytest.mark.alone

BUILD = pathlib.Path(os.environ.get("HOCKET_BUILD_DIR") or pathlib.Path(__file__).parents[2] / "build" / "dev")
SUITE = BUILD / "tests" / "contract" / "driver_contract_test"


def promises() -> list[str]:
    if not SUITE.exists():
        return ["(driver_contract_test is not built)"]
    said = subprocess.run([str(SUITE), "--gtest_list_tests"], capture_output=True, text=True, check=True).stdout
    return [line.strip() for line in said.splitlines() if line.startswith("  ")]


_kept: set[str] = set()  # by the whole suite in one process


def suite(device: Device, which: str) -> Program:
    return device.start(str(SUITE), f"--gtest_filter={which}", HOCKET_CONTRACT_DRIVER="libcuda.so.1")


@pytest.mark.parametrize("promise", promises())
def test_the_driver_keeps_the_promise(device: Device, promise: str) -> None:
    assert SUITE.exists(), f"build it: there is no {SUITE} (HOCKET_BUILD_DIR names the build folder)"
    if not _kept:
        together = suite(device, "*")
        together.wait()
        _kept.add("(tried)")
        _kept.update(line.split(".", 1)[1].split()[0] for line in together.lines if line.startswith("[       OK"))
    if promise in _kept:
        return
    # Alone it may be kept: an error of the device stays with its process, and may have been another's.
    run = suite(device, f"*.{promise}").finishes()
    assert any("PASSED  ] 1 test" in line for line in run.lines), run.story()


def test_host_memory_at_a_device_address_is_as_the_driver_says(device: Device, fact) -> None:
    probe = device.program("host_located").finishes()
    found = data(probe, "found")
    fact("host-located memory at a device address: the driver says", "yes" if found["promised"] else "no")
    fact("host-located memory at a device address: tried", found["outcome"])
    if found["gib_per_s"]:
        fact("a kernel-free read of it (device copy)", found["gib_per_s"], "GiB/s")
    if found["promised"]:
        assert found["outcome"] == "mapped, same bytes", probe.story()
