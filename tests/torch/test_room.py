"""How much memory a job is told that it may use, beside another one whose memory can be moved."""

from __future__ import annotations

import sys
import textwrap

import pytest
from world import World

HOLDS = """
    import sys
    import hocket
    hocket.join(name="holds")
    import torch
    x = torch.full((100 << 20,), 7, dtype=torch.uint8, device="cuda")
    with hocket.step():
        pass
    with hocket.away():
        print("holds", flush=True)
        sys.stdin.readline()
    with hocket.step():
        print("sum", x.sum(dtype=torch.int64).item() == 7 * x.numel())
"""
ASKS = """
    import hocket
    hocket.join(name="asks")
    import torch
    MIB = 1 << 20
    def say(what):
        asked = torch.cuda.mem_get_info(), torch.cuda.memory.mem_get_info(0), torch.accelerator.get_memory_info()
        assert asked[0] == asked[1] == asked[2], asked
        print(what, *(n // MIB for n in asked[0]))
    with hocket.step():
        torch.cuda.init()
        say("before")
        print("device", torch.cuda.cudart().cudaMemGetInfo(0)[0] <= (256 - 100) * MIB)
        x = torch.full((200 * MIB,), 3, dtype=torch.uint8, device="cuda")
        say("after")
        print("sum", x.sum(dtype=torch.int64).item() == 3 * x.numel())
"""


@pytest.mark.parametrize(("limit", "total"), [(None, 256), ("224MiB", 224)])
@pytest.mark.parametrize("allocator", ["hocket", "native"])
def test_a_jobs_room_is_its_limit_whatever_others_hold_that_can_be_moved(
    world: World, allocator: str, limit: str | None, total: int
) -> None:
    world.memory = "256MiB"
    holds = world.start(sys.executable, "-c", textwrap.dedent(HOLDS), HOCKET_ALLOCATOR=allocator)
    holds.expect("holds")
    variables = {"HOCKET_MEMORY_LIMIT": limit} if limit else {}
    asks = world.start(sys.executable, "-c", textwrap.dedent(ASKS), HOCKET_ALLOCATOR=allocator, **variables)
    asks.finishes()
    assert asks.lines == [f"before {total} {total}", "device True", f"after {total - 200} {total}", "sum True"]
    holds.go_on()
    holds.finishes()
    assert holds.lines[-1] == "sum True", holds.story()
