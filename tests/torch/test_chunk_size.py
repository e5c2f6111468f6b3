"""The unit in which a job takes device memory, by the device's size (docs/decisions/0001-chunk-size.md)."""

from __future__ import annotations

import sys

import pytest
from world import World

PROGRAM = "import hocket, torch; torch.zeros(1, device='cuda'); print(torch.cuda.memory_reserved() >> 20)"


@pytest.mark.parametrize(("memory", "mib"), [("6GiB", 2), ("12GiB", 4), ("80GiB", 8), ("141GiB", 16)])
def test_larger_devices_have_larger_chunks(world: World, memory: str, mib: int) -> None:
    world.memory = memory
    assert world.start(sys.executable, "-c", PROGRAM).finishes().lines == [str(mib)]
