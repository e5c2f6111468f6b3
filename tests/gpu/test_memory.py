"""Memory that is moved, shared, and short: the bytes and addresses are what they were."""

from __future__ import annotations

import time

import pytest

from tests.gpu.device import MIB, SLACK, Device, data

FORCED = {"HOCKET_FORCE_SPILL": "1"}


@pytest.mark.usefixtures("each_allocator")
def test_addresses_and_bytes_stay_through_spills(device: Device) -> None:
    keep = device.program("keep", "--mib", device.scaled(1024), "--rounds", 6, **FORCED)
    everything = data(keep, "bytes")["all"]
    held = data(keep, "holdings")
    keep.expect("kept")
    keep.finishes()
    assert held["restored_total"] >= 5 * everything, "not everything was moved at every boundary"


@pytest.mark.usefixtures("each_allocator")
def test_side_streams_and_recorded_blocks_survive_a_spill_at_every_boundary(device: Device) -> None:
    streams = device.program("streams", "--rounds", 5, "--mib", device.scaled(64), **FORCED)
    held = data(streams, "holdings")
    streams.expect("right")
    streams.finishes()
    assert held["restored_total"] > 0


@pytest.mark.alone
def test_two_jobs_share_one_arena(device: Device, fact) -> None:
    mib = device.scaled(4096)
    monitor = device.monitor()
    jobs = [
        device.program("arena", "--mib", mib, "--rounds", 6, "--name", name, "--hold", hold)
        for name, hold in (("a", 1), ("b", -1))
    ]
    for job in jobs:
        job.expect("built")
    monitor.peak()
    before = monitor.peak()
    first, second = jobs
    first.go_on()
    first.expect("held")
    second.go_on()
    seen = monitor.peak() - before  # its memory is there, however late this is asked
    first.go_on()
    for job in jobs:
        job.finishes()
    grown = max(seen, monitor.peak() - before)
    fact("two jobs with the same transient memory hold together", round(grown / (mib * MIB), 3), "x one's")
    assert grown >= 0.9 * mib * MIB, "the steps' memory was never seen: the measurement is wrong"
    assert grown < 1.5 * mib * MIB, "each job holds transient memory of its own"


@pytest.mark.alone
@pytest.mark.usefixtures("each_allocator")
def test_two_jobs_larger_than_what_others_leave_train_on(device: Device) -> None:
    mib = device.scaled(1024)
    first = device.program("keep", "--mib", mib, "--name", "first", "--hold", "built", "--until-told")
    first.expect("built")
    second = device.program("keep", "--mib", mib, "--name", "second", "--hold", "warm", "--rounds", 4)
    second.expect("warm")
    # Both have their contexts and kernels; now there is room for the first and half of the second.
    ballast = device.leave(mib * MIB // 2)
    first.go_on()
    second.go_on()
    second.expect("step 0")
    second.expect("step 3")
    held = data(second, "holdings")
    second.expect("kept")
    second.finishes()
    first.go_on()
    moved = data(first, "holdings")["spilled_total"] + held["spilled_total"]
    first.expect("kept")
    first.finishes()
    ballast.go_on()
    ballast.expect("unchanged")
    ballast.finishes()
    assert moved >= mib * MIB // 4, "nothing had to be spilled: the device was not full"


@pytest.mark.alone
def test_streams_and_handles_find_room_where_jobs_fill_the_device(device: Device) -> None:
    mib, headroom = device.scaled(1024), device.scaled(192)
    device.environment["HOCKET_HEADROOM"] = f"{headroom}MiB"
    monitor = device.monitor()
    first = device.program("late", "--mib", mib, "--name", "first")
    first.expect("held")
    # The second one's context, too, finds room only because the first one's bytes can go.
    ballast = device.leave(mib * MIB)
    second = device.program("late", "--mib", mib, "--name", "second")
    device.until("second", "waits")
    first.go_on()
    first.expect("made")
    second.expect("held")
    monitor.milliseconds_until(lambda free: free >= headroom * MIB * 3 // 4, time.monotonic())
    second.go_on()
    second.expect("made")
    for job in (second, first):
        job.expect("kept")
        job.finishes()
    ballast.go_on()
    ballast.expect("unchanged")
    ballast.finishes()


@pytest.mark.alone
def test_what_a_process_costs_beside_its_tensors(device: Device, fact) -> None:
    monitor = device.monitor()
    for allocator in ("plain", "hocket"):
        at_rest = monitor.free()
        program = device.program("overhead", allocator)
        for _ in range(5):
            stage = data(program, "stage")
            used = at_rest - monitor.free() - stage["blocks"]
            fact(f"a process of {allocator} PyTorch holds, after: {stage['after']}", round(used / MIB), "MiB")
            program.go_on()
        program.finishes()
        monitor.milliseconds_until(lambda free, least=at_rest - SLACK: free >= least, time.monotonic())
