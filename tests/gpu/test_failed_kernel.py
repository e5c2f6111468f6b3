"""A kernel that fails on the device ends nothing but its own process's work there."""

from __future__ import annotations

import time

from tests.gpu.device import MIB, SLACK, Device, data


def test_a_job_whose_kernel_has_failed_is_in_nobodys_way(device: Device, each_allocator: str, fact) -> None:
    mib = device.scaled(1024)
    monitor = device.monitor()
    at_rest = monitor.free()
    failing = device.program("failed", "--mib", mib)
    for call, result in data(failing, "calls").items():
        fact(f"after a failed assertion {call} answers", result)
    assert failing.expect("caught") == "caught 4"
    other = device.program("keep", "--mib", device.scaled(256), "--name", "other")
    other.expect("kept")
    other.finishes()
    assert at_rest - monitor.free() >= mib * MIB - SLACK, "its memory is its process's"
    failing.go_on()
    failing.finishes()
    ended = time.monotonic()
    fact(
        "its memory was back after",
        round(monitor.milliseconds_until(lambda free: free >= at_rest - SLACK, ended), 1),
        "ms",
    )
