"""Settings of PyTorch's allocator that a program changes while it runs are heeded as those of its start are."""

from __future__ import annotations

import sys
import textwrap

import pytest
from world import Program, World

BEGIN = """
import hocket, torch
from hocket import _native
MIB = 1 << 20
torch.cuda.init()
def block(mib):
    return torch.empty(mib * MIB, dtype=torch.uint8, device="cuda")
def set(text):
    try:
        torch._C._accelerator_setAllocatorSettings(text)
    except Exception as error:
        print(type(error).__name__, str(error).splitlines()[0])
def fraction():
    return torch.cuda.get_per_process_memory_fraction()
def held():
    return sum(h["persistent"] + h["arena"] + h["spilled"] for h in _native.holdings()) // MIB
"""


def run(world: World, code: str, **variables: str) -> Program:
    world.memory = "256MiB"
    program = BEGIN + textwrap.dedent(code)
    return world.start(sys.executable, "-c", program, **variables).finishes()


def no_effect(program: Program) -> list[str]:
    return [line.split("no effect here: ")[1].split(". ")[0] for line in program.errors if "no effect here" in line]


def test_a_fraction_is_a_limit_on_devices_in_use_and_on_those_to_come(world: World) -> None:
    world.devices = 2
    program = run(
        world,
        """
        x = block(1)
        set("per_process_memory_fraction:0.25")
        print(fraction(), torch.cuda.get_per_process_memory_fraction(1), torch.cuda.mem_get_info(0)[1] // MIB)
        try:
            block(100)
        except torch.OutOfMemoryError as error:
            print("per_process_memory_fraction) is 64.0 MiB" in str(error))
        set("per_process_memory_fraction:1.0")
        print(fraction(), block(100).numel() // MIB)
        set("per_process_memory_fraction:0.0")
        print(fraction())
        """,
    )
    assert program.lines == ["0.25 0.25 64", "True", "1.0 100", "0.0"]
    assert no_effect(program) == []


def test_the_settings_of_the_start_are_older_than_those_of_the_program(world: World) -> None:
    program = run(
        world,
        """
        set("max_split_size_mb:100")
        print(fraction())
        set("per_process_memory_fraction:0.75")
        print(fraction())
        """,
        PYTORCH_ALLOC_CONF="per_process_memory_fraction:0.5",
    )
    assert program.lines == ["0.5", "0.75"]


def test_a_fraction_lifts_no_limit_of_the_job(world: World) -> None:
    program = run(
        world,
        """
        torch.cuda.set_per_process_memory_fraction(1.0)
        set("per_process_memory_fraction:1.0")
        print(torch.cuda.mem_get_info()[1] // MIB, fraction())
        """,
        HOCKET_MEMORY_LIMIT="128MiB",
    )
    assert program.lines == ["128 0.5"]


def test_options_without_effect_are_named_once(world: World) -> None:
    program = run(
        world,
        """
        for _ in range(3):
            set("max_split_size_mb:100,pinned_num_register_threads:2,garbage_collection_threshold:0.5")
            set("expandable_segments:True,max_split_size_mb:100,backend:native")
        set("backend:cudaMallocAsync")
        print("sum", torch.ones(4, device="cuda").sum().item())
        """,
    )
    assert program.lines == ["sum 4.0"]
    assert no_effect(program) == ["max_split_size_mb, garbage_collection_threshold", "expandable_segments", "backend"]


@pytest.mark.parametrize("backend", ["native", "cudaMallocAsync"])
def test_a_backend_in_the_environment_stands_in_nobodys_way(world: World, backend: str) -> None:
    program = run(world, "print(block(1).numel() // MIB)", PYTORCH_ALLOC_CONF=f"backend:{backend}")
    assert program.lines == ["1"]
    assert no_effect(program) == ([] if backend == "native" else ["backend"])


WRONG = ("nonsense:1", "per_process_memory_fraction:3", "backend:nobodys", "max_split_size_mb:1")


@pytest.mark.parametrize("allocator", ["hocket", "native"])
def test_what_is_wrong_gets_pytorchs_error_and_changes_nothing(world: World, allocator: str) -> None:
    code = "".join(f'set("per_process_memory_fraction:0.25,{wrong}")\n' for wrong in WRONG if "fraction" not in wrong)
    code += 'set("per_process_memory_fraction:3")\nprint(fraction(), block(200).numel() // MIB)\n'
    theirs = run(world, code, HOCKET_ALLOCATOR="off")
    ours = run(world, code, HOCKET_ALLOCATOR=allocator)
    assert ours.lines == theirs.lines
    assert len(ours.lines) == len(WRONG) + 1
    assert no_effect(ours) == []


def test_pytorchs_own_allocator_over_hockets_memory_stays_so(world: World) -> None:
    program = run(
        world,
        """
        for text in ("expandable_segments:True,", "max_split_size_mb:100", "expandable_segments:True"):
            set(text)
        settings = torch.cuda.memory._snapshot()["allocator_settings"]
        print(settings["expandable_segments"], settings["release_lock_on_cudamalloc"])
        x = block(30)
        print("held", held())
        """,
        HOCKET_ALLOCATOR="native",
    )
    assert program.lines == ["False True", "held 30"]
    assert program.stderr.count("expandable_segments is switched off") == 1


REJECTED = """
set("throw_on_cudamalloc_oom:True,per_process_memory_fraction:0.25")
x = block(40)
def tried():
    try:
        return block(50) is not None
    except torch.OutOfMemoryError as error:
        return "preemptively rejected" in str(error)
stats = lambda: {k: torch.cuda.memory_stats().get(k) for k in ("num_oom_rejections", "num_ooms", "num_alloc_retries")}
print(tried(), tried(), stats())
torch.cuda.reset_accumulated_memory_stats()
print(stats())
set("throw_on_cudamalloc_oom:False,per_process_memory_fraction:1.0")
print(tried(), stats())
"""


def test_what_is_beyond_the_fraction_is_rejected_early_where_that_is_asked_for(world: World) -> None:
    theirs = run(world, REJECTED, HOCKET_ALLOCATOR="off")
    if "Unrecognized key" in theirs.lines[0]:
        pytest.skip("unknown to this torch")
    ours = run(world, REJECTED, HOCKET_ALLOCATOR="hocket")
    assert ours.lines == theirs.lines
    assert "'num_oom_rejections': 2" in ours.lines[0]
