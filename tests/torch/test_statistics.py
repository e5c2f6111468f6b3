"""torch.cuda.memory_stats() under Hocket's allocator beside PyTorch's own: one program, two processes.

docs/user-guide.md ("What each statistic means") says the same in words; ``DIFFERENT`` is its right column.
"""

from __future__ import annotations

import json
import pathlib
import re
import sys

import pytest
from world import World

PROGRAM = pathlib.Path(__file__).with_name("programs") / "statistics.py"

# Hocket gets memory in chunks of 2 MiB that hold blocks of every size; PyTorch in segments of 2 to 20 MiB and more, of
# one size class each. So these say another number, and the rest says the same.
DIFFERENT = re.compile(
    r"(segment|reserved_bytes|reserved_bytes_by_private_pools\.\d+_\d+|inactive_split|inactive_split_bytes)\."
    r"|num_device_(alloc|free)$"
)


def said(world: World, allocator: str) -> list[tuple[str, dict[str, int]]]:
    world.memory = "256MiB"
    program = world.start(sys.executable, str(PROGRAM), HOCKET_ALLOCATOR=allocator).finishes()
    lines = [json.loads(line) for line in program.lines]
    return [(line["what"], line["statistics"]) for line in lines]


@pytest.fixture
def both(world: World) -> list[tuple[str, dict[str, int], dict[str, int]]]:
    pytorch, hocket = said(world, "off"), said(world, "hocket")
    assert [what for what, _ in pytorch] == [what for what, _ in hocket]
    return [(what, theirs, ours) for (what, theirs), (_, ours) in zip(pytorch, hocket, strict=True)]


def test_the_keys_and_what_is_counted_of_blocks_are_pytorchs(both) -> None:
    for what, theirs, ours in both:
        assert theirs.keys() == ours.keys(), what
        unlike = {key: (theirs[key], ours[key]) for key in theirs if theirs[key] != ours[key]}
        assert {key: pair for key, pair in unlike.items() if not DIFFERENT.match(key)} == {}, what


def test_what_is_counted_of_chunks_adds_up(both) -> None:
    chunk = 2 << 20
    for what, _, ours in both:
        for name in {key.rsplit(".", 2)[0] for key in ours if key.endswith(".all.current")}:
            for kind in ("current", "allocated", "freed"):
                parts = ours[f"{name}.small_pool.{kind}"] + ours[f"{name}.large_pool.{kind}"]
                assert ours[f"{name}.all.{kind}"] == parts, (what, name, kind)
            assert ours[f"{name}.all.peak"] >= ours[f"{name}.all.current"] >= 0, (what, name)
        assert ours["reserved_bytes.all.current"] == ours["segment.all.current"] * chunk, what
        assert ours["reserved_bytes.all.current"] >= ours["active_bytes.all.current"], what
        free = ours["reserved_bytes.all.current"] - ours["active_bytes.all.current"]
        assert ours["inactive_split_bytes.all.current"] <= free, what
        if what.startswith("cache emptied"):
            assert ours["reserved_bytes.all.current"] == 0


def test_a_pools_bytes_are_counted_until_it_is_gone(both) -> None:
    ours = {what: statistics for what, _, statistics in both}
    if not any(key.startswith("reserved_bytes_by_private") for _, theirs, _ in both for key in theirs):
        return  # this torch does not count them, and the keys are the same: see above

    def of_pool(what: str, kind: str) -> int:
        keys = [key for key in ours[what] if key.startswith("reserved_bytes_by_private") and key.endswith(kind)]
        return sum(ours[what][key] for key in keys)

    assert of_pool("in a pool", "all.current") == 4 << 20
    assert of_pool("the pool's blocks freed", "all.current") == 4 << 20
    assert of_pool("the pool is gone", "all.current") == 0
    assert of_pool("the pool is gone", "all.peak") == 4 << 20
    assert of_pool("all reset", "all.peak") == 0


def test_under_pytorchs_own_allocator_over_hockets_memory_every_number_is_pytorchs(world: World) -> None:
    assert said(world, "native") == said(world, "off")
