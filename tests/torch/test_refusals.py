"""What memory that moves cannot do is refused by name, with what to do instead."""

from __future__ import annotations

import pathlib
import subprocess
import sys
import textwrap

import pytest
from world import World

ASKS = pathlib.Path(__file__).parent / "programs" / "asks"
WITHOUT_HOCKET = "start the program with HOCKET_ALLOCATOR=off"
WITH_NATIVE = "start the program with HOCKET_ALLOCATOR=native"


def pool(world: World, how: str, allocator: str) -> str:
    """Makes a ``torch.cuda.MemPool`` and uses it. Returns what the program says of that."""
    code = f"""
        import ctypes
        import hocket, torch
        MALLOC = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p)
        FREE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p)
        functions = [MALLOC(lambda size, device, stream: None), FREE(lambda block, size, device, stream: None)]
        def foreign():
            return torch._C._cuda_customAllocator(*(ctypes.cast(f, ctypes.c_void_p).value for f in functions))
        torch.cuda.init()
        try:
            made = torch.cuda.MemPool({how})
        except NotImplementedError as error:
            print("refused:", str(error).splitlines()[0])
        except TypeError:
            print("unknown to this torch")
        else:
            print("made", made.use_count())
        with torch.cuda.use_mem_pool(torch.cuda.MemPool()):
            print("sum", torch.ones(1000, device="cuda").sum().item())
        """
    program = world.start(sys.executable, "-c", textwrap.dedent(code), HOCKET_ALLOCATOR=allocator).finishes()
    assert program.lines[-1] == "sum 1000.0", program.story()
    return program.lines[0]


POOLS = {
    "use_on_oom=True": "Make it with use_on_oom=False",
    "no_split=True": "Make the pool without no_split",
    "foreign()": "Make the pool without one",
}


@pytest.mark.parametrize("how", list(POOLS))
def test_a_pool_that_hockets_allocator_cannot_make_is_refused(world: World, how: str) -> None:
    said = pool(world, how, "hocket")
    if said == "unknown to this torch":
        pytest.skip(said)
    assert said.startswith("refused: hocket "), said
    assert f"{POOLS[how]}, or {WITH_NATIVE}" in said, said


@pytest.mark.parametrize("how", ["use_on_oom=True", "foreign()"])
def test_over_pytorchs_own_allocator_such_a_pool_can_be_had(world: World, how: str) -> None:
    assert pool(world, how, "native") == "made 1"


def test_a_pool_of_the_allocator_in_use_is_made(world: World) -> None:
    assert pool(world, "torch._C._cuda_getAllocator()", "hocket") == "made 1"


def answers(program: list[str]) -> dict[str, str]:
    return dict(line.split(": ", 1) for line in program)


def test_what_only_cpp_can_ask_for_is_refused(world: World, tmp_path: pathlib.Path) -> None:
    command = [sys.executable, "-c", "import hocket; print(hocket.cmake_prefix())"]
    prefix = subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
    configure = ["cmake", "-S", str(ASKS), "-B", str(tmp_path), f"-DCMAKE_PREFIX_PATH={prefix}"]
    for command in (configure, ["cmake", "--build", str(tmp_path)]):
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
    world.memory = "256MiB"
    for allocator in ("hocket", "native"):
        said = answers(world.start(str(tmp_path / "asks"), HOCKET_ALLOCATOR=allocator).finishes().lines)
        for what, words in (
            ("tracker", "Unset TORCH_NCCL_USE_TENSOR_REGISTER_ALLOCATOR_HOOK"),
            ("peers", "Copy by way of the host (tensor.cpu()), use one device per process"),
        ):
            assert said[what].startswith("refused: hocket's memory "), said
            assert f"{words}, or {WITHOUT_HOCKET}" in said[what], said
        if allocator == "hocket":
            assert said["handle"].startswith("refused: hocket does not open CUDA memory of another process."), said
            assert f"send a copy on the host (tensor.cpu()), or {WITHOUT_HOCKET}" in said["handle"], said
            if "address" in said:
                assert said["address"].startswith("refused: hocket chooses itself where memory lies"), said
                assert f"Allocate without an address, or {WITH_NATIVE}" in said["address"], said
        if "rejections" in said:
            assert said["rejections"] == "done", said
            assert said["rejected"] == "0 100 0 256", said  # the device, what was asked for, had before, and has
