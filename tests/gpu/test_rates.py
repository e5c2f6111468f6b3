"""The device's rates and its own settings, for the emulated GPU; scripts/calibrate makes its data file of them."""

from __future__ import annotations

import signal
import time

import pytest

from tests.gpu.device import MIB, Device, data

pytestmark = pytest.mark.alone


def test_the_rates_of_the_device_are_measured(device: Device, fact) -> None:
    program = device.program("rates", device.size).finishes()
    for name, value in data(program, "rates").items():
        assert value > 0
        fact(f"rate {name}", float(f"{value:.4g}"), "us" if name.endswith("_us") and "per" not in name else "per us")
    calls = data(program, "calls")
    assert {"create_us", "map_us", "access_us", "unmap_us", "release_us", "pin_us_per_mib"} <= calls.keys()
    for name, value in calls.items():
        assert value >= 0
        unit = "us" if name.endswith("_us") else "us per MiB" if name.endswith("_us_per_mib") else "times"
        fact(f"call {name}", float(f"{value:.4g}"), unit)


def test_what_a_context_costs_and_how_long_its_end_takes(device: Device, fact) -> None:
    mib = device.scaled(4096)
    monitor = device.monitor()
    at_rest = monitor.free()
    program = device.program("context", "--mib", mib)
    took = data(program, "context")["ms"]
    memory = at_rest - monitor.free()
    program.go_on()
    program.expect("holds")
    assert at_rest - monitor.free() >= mib * MIB
    killed = time.monotonic()
    program.signal(signal.SIGKILL)
    gone = monitor.milliseconds_until(lambda free: free >= at_rest - MIB, killed)
    assert took > 0
    fact("setting CONTEXT_MEMORY", max(0, memory), "bytes")
    fact("setting CONTEXT_MS", round(took), "ms")
    fact("setting TEARDOWN_MS", round(gone), "ms")


def test_how_long_a_process_has_the_device_before_another_one_has(device: Device, fact) -> None:
    programs = [device.program("slices") for _ in range(2)]
    for program in programs:
        program.expect("ready")
    for program in programs:
        program.go_on()
    found = [data(program, "slices") for program in programs]
    for program in programs:
        program.finishes()
    assert all(each["kernel_us"] > 0 for each in found)
    seen = [each["slice_us"] for each in found if each["breaks"] >= 5]
    if seen:  # elsewhere both run at once, or one after the other
        fact("setting SLICE_US", round(sum(seen) / len(seen)), "us")
