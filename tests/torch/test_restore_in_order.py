"""hocket.restore_in_order() on the emulated GPU: steps begin before all is back, and no byte is wrong."""

from __future__ import annotations

import sys
import textwrap

import pytest
from world import PROGRAMS, Program, World

# Twelve MiB of parameters, and twice as much of an optimizer's state. Every step moves everything.
PRELUDE = (
    f"import sys; sys.path.append({str(PROGRAMS)!r}); import eager"
    + """
import hocket, torch
from hocket import _native

torch.manual_seed(0)
model = torch.nn.Sequential(*(torch.nn.Linear(1024, 1024) for _ in range(3))).cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
x = torch.randn(8, 1024, device="cuda")
MIB = 1 << 20
following = []  # MiB on their way, when a step begins

def now_following():
    return _native.holdings()[0]["following"] // MIB

def train(steps, early=lambda: None):
    for step in hocket.steps(range(steps)):
        following.append(now_following())
        if step > 1:
            early()
        optimizer.zero_grad()
        loss = (model(x) - 1).square().mean()
        loss.backward()
        optimizer.step()
        assert now_following() == 0
    return loss.item()
"""
)


def start(world: World, code: str, **variables: str) -> Program:
    code = PRELUDE + textwrap.dedent(code)
    return world.start(sys.executable, "-c", code, **{"HOCKET_FORCE_SPILL": "1", **variables})


def run(world: World, code: str, **variables: str) -> list[str]:
    return start(world, code, **variables).finishes().lines


@pytest.mark.parametrize("verify", ["0", "1"])
@pytest.mark.parametrize("maps", ["0", "1"])
@pytest.mark.parametrize("what", ["optimizer", "model, optimizer"])
def test_a_training_begins_its_steps_early_and_loses_no_bit(world: World, what: str, maps: str, verify: str) -> None:
    def losses(in_order: bool) -> tuple[str, list[int]]:
        line = run(
            world,
            f"""
            if {in_order}: hocket.restore_in_order({what})
            print(train(6).hex(), *following)
            """,
            HOCKET_VERIFY=verify,
            HOCKET_EMULATOR_HOST_MAPPING=maps,
        )[0].split()
        return line[0], [int(each) for each in line[1:]]

    loss, followed = losses(in_order=True)
    plain_loss, plain_followed = losses(in_order=False)
    assert loss == plain_loss
    assert max(plain_followed) == 0
    least = 16 if what == "optimizer" else 24  # a chunk of both comes with the earlier
    assert min(followed[2:]) >= least, followed


def test_inference_begins_with_its_first_module(world: World) -> None:
    lines = run(
        world,
        """
        del optimizer
        hocket.restore_in_order(model)
        model.eval()
        seen = []
        for layer in model:
            layer.register_forward_hook(lambda *_: seen.append(now_following()))
        with torch.no_grad():
            answers = set()
            for _ in hocket.steps(range(4)):
                seen.clear()
                answers.add(model(x).sum().item())
        print(len(answers), *seen)
        """,
    )
    answers, *left = map(int, lines[0].split())
    assert answers == 1
    assert left == sorted(left, reverse=True) and left[0] > left[-1] == 0, left


def test_an_early_read_is_right_where_host_memory_is_mapped(world: World) -> None:
    lines = run(
        world,
        """
        hocket.restore_in_order(optimizer)
        read = []
        def early():
            before = now_following()
            read.append(sum(state["exp_avg"].abs().sum().item() for state in optimizer.state.values()))
            assert now_following() == before > 0
            optimizer.state_dict()
            assert now_following() == 0
            read.append(sum(state["exp_avg"].abs().sum().item() for state in optimizer.state.values()))
        train(5, early)
        print(len(read), read[::2] == read[1::2])
        """,
    )
    assert lines == ["6 True"]


@pytest.mark.parametrize(("maps", "why"), [("1", "mapped for reading only"), ("0", "unmapped device memory")])
def test_an_early_write_ends_the_program(world: World, maps: str, why: str) -> None:
    program = start(
        world,
        """
        hocket.restore_in_order(optimizer)
        train(5, lambda: optimizer.state[model[0].weight]["exp_avg"].zero_())
        """,
        HOCKET_EMULATOR_HOST_MAPPING=maps,
    )
    assert program.wait() != 0
    assert why in program.stderr


def test_loading_a_state_into_memory_on_its_way_waits(world: World) -> None:
    lines = run(
        world,
        """
        hocket.restore_in_order(model, optimizer)
        def early():
            assert now_following() > 0
            model.load_state_dict({name: each + 0 for name, each in model.state_dict().items()})
            optimizer.load_state_dict(optimizer.state_dict())
        print(train(5, early).hex())
        """,
    )
    assert lines == run(world, "print(train(5).hex())")


def test_under_pytorchs_own_allocator_it_says_that_it_has_no_effect(world: World) -> None:
    program = start(
        world,
        """
        hocket.restore_in_order(model, optimizer)
        print(train(4).hex(), max(following))
        """,
        HOCKET_ALLOCATOR="native",
    ).finishes()
    assert program.lines[0].split()[1] == "0"
    assert program.stderr.count("cannot follow its turn under PyTorch's own allocator") == 1
