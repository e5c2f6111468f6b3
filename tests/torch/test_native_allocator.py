"""PyTorch's native allocator, kept: what it says and does over Hocket's memory, and when that cannot be."""

from __future__ import annotations

import sys
import textwrap

import pytest
from world import World

PRELUDE = """
import hocket, torch
from hocket import _native
MIB = 1 << 20
def block(mib):
    return torch.empty(mib * MIB, dtype=torch.uint8, device="cuda")
def held():
    return sum(device["persistent"] for device in _native.holdings())
"""


def start(world: World, code: str, **variables: str):
    return world.start(sys.executable, "-c", textwrap.dedent(code), **variables)


def run(world: World, code: str, **variables: str):
    return start(world, PRELUDE + textwrap.dedent(code), HOCKET_ALLOCATOR="native", **variables).finishes()


def test_segments_come_from_hocket_and_go_back(world: World) -> None:
    program = run(
        world,
        """
        x = block(30)
        print(torch.cuda.get_allocator_backend(), _native.allocator_in_use(), held() == torch.cuda.memory_reserved())
        x.fill_(7)
        print("sum", x.sum(dtype=torch.int64).item() == 7 * 30 * MIB)
        del x
        print("cached", held() >= 30 * MIB)
        torch.cuda.empty_cache()
        print("given back", held() == torch.cuda.memory_reserved() == 0)
        """,
    )
    assert program.lines == ["native native True", "sum True", "cached True", "given back True"]


def test_out_of_memory_says_who_holds_what_and_the_program_goes_on(world: World) -> None:
    world.memory = "128MiB"
    program = run(
        world,
        """
        x = block(60)
        try:
            block(100)
        except torch.OutOfMemoryError as error:
            print("error", str(error).replace("\\n", " "))
        torch.cuda.synchronize()
        del x
        y = block(100)  # PyTorch gives its cache back first
        y.fill_(1)
        print("sum", y.sum(dtype=torch.int64).item() == 100 * MIB)
        """,
    )
    error = next(line for line in program.lines if line.startswith("error"))
    assert "Tried to allocate 100.00 MiB" in error
    assert "This job holds 60.0 MiB persistent" in error
    assert program.lines[-1] == "sum True"


def test_a_memory_limit_holds_and_mem_get_info_shows_it(world: World) -> None:
    program = run(
        world,
        """
        x = block(20)
        print("room", *(n // MIB for n in torch.cuda.mem_get_info()))
        try:
            block(60)
        except torch.OutOfMemoryError as error:
            print("limit", "limit is 64.0 MiB" in str(error))
        """,
        HOCKET_MEMORY_LIMIT="64MiB",
    )
    assert program.lines == ["room 44 64", "limit True"]


def test_a_captured_graph_is_replayed_after_its_memory_was_away(world: World) -> None:
    program = run(
        world,
        """
        x = torch.ones(1000, device="cuda")
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with hocket.step():
            with torch.cuda.graph(graph):
                y = x * 3
        for i in hocket.steps(range(3)):
            x.fill_(i)
            graph.replay()
            print("y", y.sum().item())
        print("moved", all(device["restored_total"] > 0 for device in _native.holdings()))
        """,
        HOCKET_FORCE_SPILL="1",
    )
    assert program.lines == ["y 0.0", "y 3000.0", "y 6000.0", "moved True"]


@pytest.mark.parametrize("allocator", ["native", "hocket"])
def test_turns_pass_while_a_pool_is_open(world: World, allocator: str) -> None:
    program = start(
        world,
        PRELUDE
        + textwrap.dedent(
            """
            with torch.cuda.use_mem_pool(torch.cuda.MemPool()):
                x = block(4).fill_(7)
                for _ in hocket.steps(range(3)):
                    x += 1
                print("sum", x.sum(dtype=torch.int64).item() == 10 * 4 * MIB)
                print("moved", all(device["restored_total"] > 0 for device in _native.holdings()))
            """
        ),
        HOCKET_ALLOCATOR=allocator,
        HOCKET_FORCE_SPILL="1",
    ).finishes()
    assert program.lines == ["sum True", "moved True"]


def test_what_the_cache_does_not_use_is_given_back_when_the_turn_passes(world: World) -> None:
    program = run(
        world,
        """
        kept = block(30).fill_(3)
        cached = block(60)
        del cached
        print("cached", torch.cuda.memory_reserved() // MIB)
        for _ in hocket.steps(range(2)):
            pass
        print("left", torch.cuda.memory_reserved() // MIB, sum(d["spilled_total"] for d in _native.holdings()) // MIB)
        print("sum", kept.sum(dtype=torch.int64).item() == 3 * 30 * MIB)
        """,
        HOCKET_FORCE_SPILL="1",
    )
    assert program.lines == ["cached 90", "left 30 60", "sum True"]


def test_a_tensor_of_segments_cannot_be_shared_by_cuda_ipc(world: World) -> None:
    program = run(
        world,
        """
        try:
            block(4).untyped_storage()._share_cuda_()
        except NotImplementedError as error:
            print("refused", "cannot be shared" in str(error))
        """,
    )
    assert program.lines == ["refused True"]


def test_memory_from_before_stays_and_is_freed_where_it_came_from(world: World) -> None:
    before = 'import torch\nx = torch.ones(1 << 22, device="cuda")\n'
    program = start(
        world,
        before
        + PRELUDE
        + textwrap.dedent(
            """
            print("held", _native.allocator_in_use(), torch.cuda.memory_reserved() // MIB, held())
            y = block(30)
            x += 1
            print("sum", x.sum().item() == 2 << 22, held() >= 30 * MIB)
            del x, y
            torch.cuda.empty_cache()
            print("given back", torch.cuda.memory_reserved(), held())
            """
        ),
    ).finishes()
    assert program.lines == ["held native 16 0", "sum True True", "given back 0 0"]
    assert "the 16.0 MiB that PyTorch held then stay on the device" in program.stderr


def test_an_unknown_allocator_is_named_with_those_that_there_are(world: World) -> None:
    program = start(world, "import hocket, torch; hocket.join()", HOCKET_ALLOCATOR="natve")
    assert program.wait() != 0
    assert "HOCKET_ALLOCATOR='natve': it must be one of hocket, native, off" in program.stderr


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ({"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}, "PYTORCH_NO_CUDA_MEMORY_CACHING is set"),
        ({"PYTORCH_ALLOC_CONF": "backend:cudaMallocAsync"}, 'PyTorch uses its allocator "cudaMallocAsync"'),
    ],
)
def test_what_cannot_be_managed_is_said_and_turns_are_taken(
    world: World, variables: dict[str, str], words: str
) -> None:
    program = start(
        world,
        """
        import hocket, torch
        from hocket import _native
        print("manages", _native.allocator_in_use())
        with hocket.step():
            print("sum", torch.ones(4).sum().item())
        """,
        HOCKET_ALLOCATOR="native",
        **variables,
    ).finishes()
    assert program.lines == ["manages off", "sum 4.0"]
    assert program.stderr.count(words) == 1
    assert program.stderr.count("its memory stays where it is") == 1


def test_expandable_segments_are_switched_off_and_other_options_stay(world: World) -> None:
    program = run(
        world,
        """
        x = block(30)
        print("held", held() // MIB, torch.cuda.get_per_process_memory_fraction())
        """,
        PYTORCH_ALLOC_CONF="expandable_segments:True,per_process_memory_fraction:0.5",
    )
    assert program.lines == ["held 30 0.5"]
    assert program.stderr.count("expandable_segments is switched off") == 1
    assert "no effect" not in program.stderr


def test_peers_that_pytorch_may_know_already_keep_their_memory(world: World) -> None:
    world.devices = 2
    program = start(
        world,
        """
        import torch
        before = torch.ones(4, device="cuda:0").to("cuda:1")
        import hocket
        from hocket import _native
        with hocket.step():
            after = torch.ones(4, device="cuda:1") + before
        print("kept", _native.allocator_in_use(), after.sum().item())
        """,
        HOCKET_EMULATOR_PEERS="1",
    ).finishes()
    assert "kept off 8.0" in program.lines
    assert "use one device in the process" in program.stderr
