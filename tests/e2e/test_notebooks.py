"""Jupyter notebooks: what they hold is nobody's loss while their users think."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator

import pytest
from notebook import Notebook
from world import LARGE, LARGE_BYTES, World

HELD = 30 << 20  # numbers of the notebook: 120 MiB
MEMORY = "220MiB"
BUILT = f"values = torch.arange({HELD}, device='cuda', dtype=torch.int32)"
SUM = "print(values[-1].item(), values[12345].item(), values.sum().item())"
SUM_IS = f"{HELD - 1} 12345 {HELD * (HELD - 1) // 2}"


@pytest.fixture(params=["hocket run", "import hocket", "CUDA has started, and import hocket", "native"])
def notebook(request: pytest.FixtureRequest, world: World) -> Iterator[Notebook]:
    """One that holds HELD numbers, in whichever way it came to take part."""
    assert HELD * 4 + LARGE_BYTES > 220 << 20
    world.memory = MEMORY
    variables = {"HOCKET_VERIFY": "1"}  # a use of memory that is not there is said
    if request.param == "native":
        variables |= {"HOCKET_ALLOCATOR": "native"}
    made = Notebook(world, unchanged=request.param in ("hocket run", "native"), **variables)
    first = {"import hocket": "import torch, hocket"}.get(request.param, "import torch")
    assert made.run(first) == ""
    if request.param.startswith("CUDA"):
        assert made.run("before = torch.ones(1, device='cuda'); import hocket") == ""
    assert made.run(BUILT) == ""
    yield made
    assert "HOCKET_VERIFY" not in made.program.stderr, made.program.story()
    made.close()


def test_an_idle_notebook_gives_its_memory_to_others_and_has_it_back(
    world: World, notebook: Notebook, alone: Callable[..., list[str]]
) -> None:
    other = world.job("train", "--name", "other", "--losses", world.losses("other"), *LARGE)
    other.finishes()  # it would wait for ever if the notebook kept its memory
    assert world.losses("other").read_text().split() == alone("train", *LARGE)
    assert notebook.run(SUM) == SUM_IS
    assert notebook.counted("spilled_total") > 0


def test_a_cell_waits_for_its_memory_and_ctrl_c_ends_the_wait(
    world: World, notebook: Notebook, alone: Callable[..., list[str]]
) -> None:
    other = world.job("train", "--name", "other", "--hold", "3", "--losses", world.losses("other"), *LARGE)
    other.expect("step 3")  # the optimizer's state is there
    world.until_spilled("notebook")
    notebook.begin("print('this cell has run')")
    world.until("notebook", "waits")
    notebook.program.signal(signal.SIGINT)
    assert notebook.outcome() == (
        "InputRejected: this cell has not run: it was interrupted while it waited for its memory"
    )
    notebook.begin(SUM)
    world.until("notebook", "waits")
    other.go_on()
    assert notebook.outcome() == SUM_IS
    other.finishes()
    assert world.losses("other").read_text().split() == alone("train", *LARGE)


@pytest.mark.parametrize(
    "loop",
    ["for _ in __import__('hocket').steps(range(9)):\n  ", "for _ in torch.utils.data.DataLoader(range(9)):\n  "],
    ids=["said", "found"],
)
def test_a_step_that_a_cell_left_by_an_exception_keeps_nothing(
    world: World, alone: Callable[..., list[str]], loop: str
) -> None:
    world.memory = MEMORY
    notebook = Notebook(world, unchanged=True)
    assert notebook.run(f"import torch; {BUILT}") == ""
    work = "torch.ones(9, device='cuda'); raise ArithmeticError('on purpose')"
    assert notebook.run(loop + work) == "ArithmeticError: on purpose"
    other = world.job("train", "--name", "other", "--losses", world.losses("other"), *LARGE)
    other.finishes()
    assert world.losses("other").read_text().split() == alone("train", *LARGE)
    assert notebook.run(SUM) == SUM_IS
    notebook.close()


def test_a_tooltip_between_two_cells_finds_its_memory(
    world: World, notebook: Notebook, alone: Callable[..., list[str]]
) -> None:
    other = world.job("train", "--name", "other", "--hold", "3", "--losses", world.losses("other"), *LARGE)
    other.expect("step 3")
    world.until_spilled("notebook")
    notebook.begin_tooltip("values")  # shows the first and the last numbers
    world.until("notebook", "waits")
    other.go_on()
    assert notebook.outcome() == ""
    other.finishes()  # it needs the memory once more
    assert world.losses("other").read_text().split() == alone("train", *LARGE)
    assert notebook.run(SUM) == SUM_IS


def test_a_callback_between_two_cells_finds_its_memory(
    world: World, notebook: Notebook, alone: Callable[..., list[str]]
) -> None:
    fifo = str(world.folder / "callback")
    os.mkfifo(fifo)
    registers = (
        "import asyncio, os\n"
        f"fifo = os.open({fifo!r}, os.O_RDONLY | os.O_NONBLOCK)\n"
        "seen = []\n"
        "def called():\n"
        "  asyncio.get_running_loop().remove_reader(fifo)\n"
        "  seen.append(values[12345].item())\n"
        "asyncio.get_running_loop().add_reader(fifo, called)"
    )
    assert notebook.run(registers) == ""
    other = world.job("train", "--name", "other", "--hold", "3", "--losses", world.losses("other"), *LARGE)
    other.expect("step 3")
    world.until_spilled("notebook")
    with open(fifo, "w") as callback:
        callback.write("now")
    world.until("notebook", "waits")
    other.go_on()
    assert notebook.run("print(seen)") == "[12345]"
    other.finishes()
    assert world.losses("other").read_text().split() == alone("train", *LARGE)
    assert notebook.run(SUM) == SUM_IS
