"""Sizes that fit the device that is there: on a card of 8, 16 or 24 GiB smaller ones than figures are usually about.

A figure of another size is another row: its name says the size (``name``). What was left out, or made smaller, is said
when it is chosen. How large an emulated device is, HOCKET_EMULATOR_MEMORY may say, as far as that is less than what the
benchmark asks for.
"""

from __future__ import annotations

import functools
import os
import re
import subprocess
import sys
from collections.abc import Callable, Sequence

MIB, GIB = 1 << 20, 1 << 30
# What a process takes of the device's memory for itself: a context with torch's and cuBLAS's kernels and workspaces.
CONTEXT = 640 * MIB
LEAST = 64 * MIB
UNITS = {"": 1, "KiB": 1 << 10, "MiB": MIB, "GiB": GIB, "TiB": 1 << 40}


def of_text(text: str) -> int:
    """Bytes, of a number with a unit."""
    found = re.fullmatch(r"([0-9.]+) ?([KMGT]iB|)", text)
    if found is None:
        raise ValueError(f"{text!r} is no size: write 8GiB or 512MiB")
    return int(float(found[1]) * UNITS[found[2]])


def in_words(size: int) -> str:
    return f"{size / GIB:g} GiB" if size % (GIB // 4) == 0 else f"{size / MIB:g} MiB"


def smaller(memory: str) -> str:
    """``memory``, or what HOCKET_EMULATOR_MEMORY says where that is less."""
    limit = os.environ.get("HOCKET_EMULATOR_MEMORY", "")
    return limit if limit and of_text(limit) < of_text(memory) else memory


def name(stem: str, size: int, usual: int) -> str:
    """Of a figure of this size, where most machines have one of ``usual``: other sizes are rows of their own."""
    return stem if size == usual else f"{stem}_{in_words(size).replace(' ', '_').lower()}"


@functools.cache
def free(device: str, memory: str) -> int:
    """Bytes of the device that are free now, as a program sees it that has a context there."""
    from tests.bench import harness

    look = "from tests.bench.monitor import memory_of_device_0; print(memory_of_device_0()()[0])"
    command = harness.emulate(device, memory, [sys.executable, "-c", look], timing=True)
    said = subprocess.run(command, check=True, capture_output=True, text=True, cwd=harness.ROOT)
    return int(said.stdout.split()[-1])


def host_free() -> int:
    """Bytes of the host that programs may still take: of an emulated device no page is touched."""
    from tests.bench import harness

    if harness.PLACE.emulated:
        return 1 << 60
    with open("/proc/meminfo") as file:
        available = next(line for line in file if line.startswith("MemAvailable"))
    return int(available.split()[1]) * 1024


def fitting(
    what: str,
    wanted: Sequence[int],
    there: int,
    needs: Callable[[int], int],
    on_host: Callable[[int], int] = lambda size: 0,
) -> list[int]:
    """Those of the sizes that fit; where none does, the smallest, halved until it does. Says what it makes of them.

    Args:
        what: whose sizes, for the sentence.
        there: free bytes of the device.
        needs, on_host: bytes of the device and of the host that a size needs in all.

    Raises:
        harness.NotRun: not even a very small one fits.
    """
    host = host_free() * 3 // 4

    def fits(size: int) -> bool:
        return needs(size) <= there and on_host(size) <= host

    chosen = [size for size in wanted if fits(size)]
    if not chosen:
        size = min(wanted)
        while not fits(size):
            size //= 2
            if size < LEAST:
                from tests.bench import harness

                raise harness.NotRun(
                    f"{in_words(there)} of the device are free: even {in_words(LEAST)} do not fit, because that takes "
                    f"{in_words(needs(LEAST))} with the contexts of its programs"
                )
        chosen = [size]
    if chosen != list(wanted):
        usual, taken = (", ".join(map(in_words, each)) for each in (wanted, chosen))
        print(f"{what}: {in_words(there // MIB * MIB)} of the device are free: {taken} instead of {usual}", flush=True)
    return chosen
