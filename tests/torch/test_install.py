"""Getting in before CUDA starts, and what is said when that is too late."""

from __future__ import annotations

import sys
import textwrap

import pytest
from world import World


def start(world: World, code: str, **variables: str):
    return world.start(sys.executable, "-c", textwrap.dedent(code), **variables)


def test_cuda_started_before(world: World) -> None:
    program = start(
        world,
        """
        import torch
        x = torch.ones(4, device="cuda")
        import hocket
        with hocket.step():
            print("sum", x.sum().item())
        from hocket import _native
        print("manages", _native.allocator_in_use(), _native.info()["joined"], _native.info()["steps"])
        """,
    ).finishes()
    assert "sum 4.0" in program.lines
    assert "manages native True 1" in program.lines
    assert "before" in program.stderr


@pytest.mark.parametrize("asked", [None, "1"])
def test_nccl_registers_no_memory_that_moves(world: World, asked: str | None) -> None:
    program = start(
        world,
        """
        import ctypes
        import hocket
        getenv = ctypes.CDLL(None).getenv
        getenv.restype = ctypes.c_char_p
        print("registers", getenv(b"NCCL_GRAPH_REGISTER").decode())
        """,
        **({"NCCL_GRAPH_REGISTER": asked} if asked else {}),
    ).finishes()
    assert "registers 0" in program.lines
    assert ("NCCL_GRAPH_REGISTER=1 is set to 0" in program.stderr) == (asked is not None)


def test_the_allocator_can_be_left_to_pytorch(world: World) -> None:
    program = start(
        world,
        """
        import hocket, torch
        with hocket.step():
            print("sum", torch.ones(4, device="cuda").sum().item())
        print("backend", torch.cuda.get_allocator_backend())
        """,
        HOCKET_ALLOCATOR="off",
    ).finishes()
    assert "backend native" in program.lines


def test_the_current_device_stays_when_another_is_put_to_use(world: World) -> None:
    world.devices = 2
    program = start(
        world,
        """
        import hocket, torch
        torch.cuda.set_device(1)
        a = torch.ones(4, device="cuda")
        torch.cuda.memory_allocated(0)
        b = torch.ones(4, device="cuda")
        c = torch.ones(4, device="cuda:0")
        print("devices", a.device, b.device, torch.cuda.current_device())
        del a, c
        print("held", [torch.cuda.memory_allocated(i) for i in range(2)], b.sum().item())
        """,
    ).finishes()
    assert "devices cuda:1 cuda:1 1" in program.lines
    assert "held [0, 512] 4.0" in program.lines


@pytest.mark.parametrize("allocator", ["hocket", "native"])
def test_devices_that_are_peers_do_not_reach_each_others_memory(world: World, allocator: str) -> None:
    world.devices = 2
    code = """
        {imports}
        import torch
        rows = torch.arange(6.0, device="cuda:0").reshape(2, 3)
        for i in range(2):  # PyTorch remembers after the first
            there = rows.t().to("cuda:1")
            back = (there + 1).to("cuda:0")
            print("copied", there.device, back.tolist() == (rows.t() + 1).tolist())
        print("peers", torch.cuda.can_device_access_peer(0, 1))
        """
    plain = start(world, code.format(imports=""), HOCKET_EMULATOR_PEERS="1").finishes()
    assert "peers True" in plain.lines
    program = start(
        world, code.format(imports="import hocket"), HOCKET_EMULATOR_PEERS="1", HOCKET_ALLOCATOR=allocator
    ).finishes()
    assert program.lines == ["copied cuda:1 True", "copied cuda:1 True", "peers False"]


def test_a_program_without_a_device_takes_turns_on_the_cpu(world: World) -> None:
    program = world.start(
        sys.executable,
        "-c",
        textwrap.dedent(
            """
            import hocket, torch
            for i in hocket.steps(range(3)):
                torch.ones(4).sum()
            from hocket import _native
            info = _native.info()
            print(info["device_name"], info["steps"], info["coordinated"])
            """
        ),
        emulated=False,
    ).finishes()
    assert "CPU 3 True" in program.lines


def test_no_coordinator_to_be_had_is_said_once_and_steps_run(world: World) -> None:
    program = start(
        world,
        """
        import hocket, torch
        for i in hocket.steps(range(3)):
            x = torch.ones(4, device="cuda")
        print("done", i)
        """,
        HOCKET_DAEMON="/nonexistent/hocketd",
    ).finishes()
    assert "done 2" in program.lines
    assert program.stderr.count("Running without coordination") == 1


@pytest.mark.parametrize(("variable", "text"), [("HOCKET_CHUNK_SIZE", "3 parsecs"), ("HOCKET_HOST_BUDGET", "-1")])
def test_a_bad_size_in_the_environment_is_named(world: World, variable: str, text: str) -> None:
    program = start(
        world,
        """
        import hocket, torch
        try:
            torch.ones(4, device="cuda")
        except RuntimeError as error:
            print("error", str(error).splitlines()[0])
        """,
        **{variable: text},
    ).finishes()
    line = next(line for line in program.lines if line.startswith("error"))
    assert variable in line
    assert text in line


@pytest.mark.parametrize("variable", ["PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"])
def test_options_of_pytorchs_allocator_are_honoured_or_named_once(world: World, variable: str) -> None:
    program = start(
        world,
        """
        import hocket, torch
        x = torch.ones(4, device="cuda")
        print("sum", x.sum().item(), torch.cuda.get_per_process_memory_fraction())
        """,
        **{variable: "max_split_size_mb:128,pinned_num_register_threads:2,roundup_power2_divisions:[256:1,512:2],"
           "per_process_memory_fraction:0.25"},
    ).finishes()  # fmt: skip
    assert "sum 4.0 0.25" in program.lines
    said = [line for line in program.errors if variable in line]
    assert len(said) == 1, program.story()
    assert "no effect here: max_split_size_mb, roundup_power2_divisions." in said[0]
