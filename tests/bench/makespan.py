"""Jobs that each need the device for a part of their time: together under Hocket, one after the other, and side by side
as the driver slices time between them.

``fit``: everything stays resident. ``do not fit``: the overlap of their persistent memory moves at every hand-over; its
round trip is at most a quarter of the loading pause, and that is measured, too. And three jobs that load data for three
quarters of their time, of which two fit: a round trip takes longer than such a pause. These are small networks beside a
kernel that sleeps; two more that fit are full-size (makespan_resnet.py).
"""

from __future__ import annotations

import contextlib
import dataclasses
from typing import Any

from tests.bench import exchange, harness, makespan_resnet, sizes, together
from tests.bench.sizes import CONTEXT, MIB

HELD = (2048 + 192) * MIB
LACKING = 128 * MIB  # of what two jobs hold: on the emulated GPU copied in some 3 ms each way, beside a pause of 100 ms
DEVICE = "bench-makespan"
BASELINE = "the same two jobs one after the other, plain torch"
SLICED = "plain torch side by side (the driver's time-slicing)"


def _device(stack: contextlib.ExitStack, folder: str, device_ms: float) -> together.Device:
    training = ("--kind", "cnn", "--device-ms", str(device_ms))
    return together.Device(stack, folder, training, DEVICE, harness.Filled.EMULATED_MEMORY)


def _fit(device_ms: float, steps: int, repeats: int, held: int) -> together.Found:
    with harness.runtime_folder() as folder, contextlib.ExitStack() as stack:
        device = _device(stack, folder, device_ms)
        jobs, plain = ([device.start(mode, number) for number in (1, 2)] for mode in ("hocket", "plain"))
        together.run(jobs, steps=2)
        for each in plain:
            each.ask(steps=2)
        for each in (*plain, *jobs):
            each.ask(hold=held)
        together.run(jobs, steps=2)
        return together.makespans(folder, jobs, plain, {"steps": steps, "gap_ms": device_ms}, repeats)


@dataclasses.dataclass
class TooLarge:
    """Attributes:
    found: as of jobs that fit.
    overlap: bytes that were on the host after each block: so many have no place beside the other job's.
    round_trips: what plain copies of them take there and back, over the loading pause.
    """

    found: together.Found
    overlap: list[int] = dataclasses.field(default_factory=list)
    round_trips: list[float] = dataclasses.field(default_factory=list)


def _too_large(device_ms: float, steps: int, repeats: int, held: int) -> TooLarge:
    """Two jobs that lack ``LACKING`` of what they hold."""
    with harness.runtime_folder() as folder, contextlib.ExitStack() as stack:
        device = _device(stack, folder, device_ms)
        jobs, plain = [device.start("hocket", number) for number in (1, 2)], device.start("plain", 1)
        together.run(jobs, steps=2)
        plain.ask(steps=2)
        plain.ask(hold=held)
        jobs[0].ask(hold=held)
        filled = stack.enter_context(harness.Filled(DEVICE, folder))
        filled.leave(held - LACKING)
        jobs[1].ask(hold=held)
        together.run(jobs, steps=2)
        environment = {"HOCKET_RUNTIME_DIR": folder}
        made = TooLarge(({}, {}))

        def look() -> None:
            exchange.await_rest(environment)
            made.overlap.append(sum(job["spilled"] for job in exchange.jobs_of(environment)))
            made.round_trips.append(1e3 * filled.round_trip(made.overlap[-1]) / device_ms)

        block = {"steps": steps, "gap_ms": device_ms}
        made.found = together.makespans(folder, jobs, [plain], block, repeats, look)
        return made


def _plain_too_large(device_ms: float, held: int) -> str:
    """What happens to two such jobs without Hocket: tried once, and told."""
    with harness.runtime_folder() as folder, contextlib.ExitStack() as stack:
        device = _device(stack, folder, device_ms)
        plain = [device.start("plain", number) for number in (1, 2)]
        for each in plain:
            each.ask(steps=2)
        stack.enter_context(harness.Filled(DEVICE, folder)).leave(2 * held - LACKING)
        plain[0].ask(hold=held)
        try:
            plain[1].ask(hold=held)
        except RuntimeError as error:
            return f"the second job ends: {first_words(str(error))}"
    return "both found room: the device was not as full as it was to be"


def first_words(error: str) -> str:
    """Of what a worker that ended has said: the first sentences of its exception."""
    lines = [line for line in error.splitlines() if line]
    exception = next((line for line in reversed(lines) if "OutOfMemoryError: " in line), lines[-1])
    return ". ".join(exception.split(". ")[:3]).rstrip(".")


def _three(device_ms: float, gap_ms: float, steps: int, repeats: int, held: int) -> together.Found:
    """Of three jobs, of which two fit on the device, with what is kept free for handles, and a part of one."""
    with harness.runtime_folder() as folder, contextlib.ExitStack() as stack:
        device = _device(stack, folder, device_ms)
        plain = device.start("plain", 0)
        plain.ask(steps=2)
        jobs = [device.start("hocket", number) for number in (1, 2, 3)]
        together.run(jobs, steps=2)
        jobs[0].ask(hold=held)
        stack.enter_context(harness.Filled(DEVICE, folder)).leave(held + held // 4)
        for job in jobs[1:]:
            job.ask(hold=held)
        block = {"steps": steps, "gap_ms": gap_ms}
        together.run(jobs, **block)  # what moving costs is known then
        return together.makespans(folder, jobs, [plain], block, repeats)


def _held(contexts: int) -> tuple[int, str]:
    """What each of three holds where so many bytes fit, and what the rows say of it where it is not the usual size."""
    free = sizes.free(DEVICE, harness.Filled.EMULATED_MEMORY)
    held = sizes.fitting("makespan", [HELD], free, lambda size: 3 * size + contexts * CONTEXT, lambda size: size)[0]
    return held, "" if held == HELD else f" ({sizes.in_words(held)} each)"


class Rows:
    """The record as it grows: what has been measured is there should the time be up in what follows."""

    def __init__(self) -> None:
        self._figures: list[harness.Figure] = []
        self._extra: dict[str, Any] = {"not_measured": [], "what the coordinator said meanwhile": {}}

    def add(self, name: str, text: str, found: together.Found, goal: float, baseline: str = BASELINE) -> None:
        ratios, said = found
        self.figure(harness.figure(name, text, ratios["hocket"], goal, baseline))
        self._extra["what the coordinator said meanwhile"][name] = said
        if ratios["sliced"]:
            self.figure(harness.figure(f"{name}_sliced", f"{text}, {SLICED}", ratios["sliced"], 1.0, baseline))

    def figure(self, figure: harness.Figure) -> None:
        self._figures.append(figure)

    def not_measured(self, name: str, text: str, why: str) -> None:
        self._extra["not_measured"].append(harness.not_measured(name, text, BASELINE, why))

    def note(self, **facts: Any) -> None:
        self._extra |= facts

    def write(self) -> None:
        harness.record("makespan", self._figures, extra=self._extra)


def _add_fit(rows: Rows, quick: bool) -> None:
    found = _fit(20, *harness.extent(quick, usual=(40, 9), brief=(20, 5), least=(10, 2)), 64 * MIB)
    rows.add("makespan_fit", "makespan of two jobs of 50 % duty, both fit", found, 0.60)


def _add_too_large(rows: Rows, quick: bool) -> None:
    pause_ms = 100
    held, each = _held(contexts=4)  # a plain job stays beside the two; and the ballast
    name = sizes.name("makespan_too_large", held, HELD)
    text = f"makespan of two jobs of 50 % duty that do not fit{each}"
    large = _too_large(pause_ms, *harness.extent(quick, usual=(10, 9), brief=(5, 5), least=(5, 2)), held)
    rows.add(name, text, large.found, 0.70)
    rows.figure(
        harness.figure(
            f"{name}_round_trip",
            f"of two jobs of 50 % duty that do not fit{each}: round trip of the overlap, plain pinned copies",
            large.round_trips,
            0.25,
            f"the loading pause, {pause_ms} ms",
        )
    )
    rows.note(overlap=large.overlap)
    rows.not_measured(f"{name}_sliced", f"{text}, {SLICED}", _plain_too_large(pause_ms, held))


def _add_resnet(rows: Rows, quick: bool) -> None:
    text = "makespan of two ResNet-50 trainings whose loading pause is as long as their step, both fit"
    if lacks := makespan_resnet.too_little():
        rows.not_measured("makespan_resnet", text, lacks)
        return
    found, alone = makespan_resnet.measure(*harness.extent(quick, usual=(16, 7), brief=(8, 5), least=(3, 2)))
    rows.add("makespan_resnet", text, found, 0.60)
    rows.note(resnet_alone=alone)


def _add_three(rows: Rows, quick: bool) -> None:
    held, each = _held(contexts=5)  # a plain job beside the three; and the ballast
    name = sizes.name("makespan_three", held, HELD)
    text = f"makespan of three jobs of 25 % duty of which two fit{each}"
    baseline = BASELINE.replace("two", "three")
    if harness.PLACE.brief and not quick:
        rows.not_measured(name, text, "its blocks take minutes: scripts/bench makespan")
        return
    # A turn lasts some 3 s there: in a block each job has several.
    found = _three(20, 60, *((10, 2) if quick else (240, 5)), held)
    rows.add(name, text, found, 0.60, baseline)


def run(quick: bool) -> None:
    rows = Rows()
    for add in (_add_fit, _add_too_large, _add_resnet, _add_three):
        add(rows, quick)
        rows.write()
