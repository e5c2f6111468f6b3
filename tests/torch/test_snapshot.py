"""torch.cuda.memory._snapshot() under Hocket's allocator beside PyTorch's own: one program, two processes."""

from __future__ import annotations

import json
import pathlib
import sys

from world import World

PROGRAM = pathlib.Path(__file__).with_name("programs") / "snapshot.py"


def shown(world: World, allocator: str) -> dict:
    world.memory = "256MiB"
    # -P: PyTorch imports Python's `statistics`, and the program beside this one has that name.
    program = world.start(sys.executable, "-P", str(PROGRAM), HOCKET_ALLOCATOR=allocator).finishes()
    return json.loads(program.lines[-1])


def test_a_snapshot_has_what_pytorchs_has(world: World) -> None:
    pytorch, hocket = shown(world, "off"), shown(world, "hocket")
    assert pytorch["annotations"] == [{"name": "forward", "stage": stage, "device": 0} for stage in ("START", "END")], (
        "the comparison says nothing of annotations"
    )
    for what, theirs in pytorch.items():
        assert hocket[what] == theirs, what


def test_under_pytorchs_own_allocator_over_hockets_memory_it_is_pytorchs(world: World) -> None:
    pytorch, native = shown(world, "off"), shown(world, "native")
    pytorch["settings"]["release_lock_on_cudamalloc"] = True  # what Hocket adds
    assert native == pytorch
