"""hocket.constant() on the emulated GPU: frozen weights go to the host once, and a write to them is not lost."""

from __future__ import annotations

import sys
import textwrap

import pytest
from world import PROGRAMS, Program, World

# A frozen backbone of 16 MiB and small matrices that learn. With HOCKET_FORCE_SPILL=1 every step moves everything.
PRELUDE = (
    f"import sys; sys.path.append({str(PROGRAMS)!r}); import eager"
    + """
import hocket, torch
from hocket import _native

torch.manual_seed(0)
MIB = 1 << 20

class Adapted(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone = torch.nn.Sequential(*(torch.nn.Linear(1024, 1024) for _ in range(4)))
        self.norm = torch.nn.BatchNorm1d(1024)
        self.down = torch.nn.ModuleList(torch.nn.Linear(1024, 4, bias=False) for _ in range(4))
        self.up = torch.nn.ModuleList(torch.nn.Linear(4, 1024, bias=False) for _ in range(4))

    def forward(self, x):
        for layer, down, up in zip(self.backbone, self.down, self.up):
            x = torch.tanh(layer(x) + up(down(x)))
        return self.norm(x)

model = Adapted().cuda()
model.backbone.requires_grad_(False)
optimizer = torch.optim.AdamW((p for p in model.parameters() if p.requires_grad), lr=1e-2)
x = torch.randn(8, 1024, device="cuda")
frozen = sum(p.nbytes for p in model.backbone.parameters())

def train(steps):
    for _ in hocket.steps(range(steps), optimizer=optimizer):
        loss = (model(x) - 1).square().mean()
        loss.backward()
        optimizer.step()
    return loss.item()

def moved(key):
    return sum(device[key] for device in _native.holdings())
"""
)


def start(world: World, code: str, **variables: str) -> Program:
    code = PRELUDE + textwrap.dedent(code)
    return world.start(sys.executable, "-c", code, **{"HOCKET_FORCE_SPILL": "1", **variables})


def run(world: World, code: str, **variables: str) -> Program:
    return start(world, code, **variables).finishes()


def test_a_frozen_backbone_is_copied_once_and_the_losses_are_the_same(world: World) -> None:
    def told(on: bool) -> tuple[str, int, int, int]:
        program = run(
            world,
            f"""
            assert not {on} or hocket.constant(model) == frozen
            print(train(6).hex(), moved("spilled_total") // frozen, moved("spared_total") // frozen,
                  moved("restored_total") // frozen)
            """,
            HOCKET_VERIFY="1",
        )
        loss, *moved = program.lines[0].split()
        return loss, *map(int, moved)

    loss, copied, spared, restored = told(True)
    plain_loss, plain_copied, plain_spared, plain_restored = told(False)
    assert loss == plain_loss
    assert copied == 1 and spared >= 4, "the backbone was copied more than once"
    assert plain_copied >= 5 and plain_spared == 0
    assert restored == plain_restored == plain_copied


WRITES = {
    "an operator": "model.backbone[0].weight.requires_grad_(False).mul_(2)",
    "a checkpoint": "model.load_state_dict({k: v * 2 for k, v in model.state_dict().items()})",
    "a view": "model.backbone[0].weight.view(-1)[0] = 5.0",
}


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_a_write_through_pytorch_takes_the_promise_back(world: World, write: str) -> None:
    program = run(
        world,
        f"""
        hocket.constant(model)
        train(3)
        with torch.no_grad():
            {write}
        expected = model.backbone[0].weight.cpu()
        train(3)
        print("kept", torch.equal(model.backbone[0].weight.cpu(), expected))
        """,
        HOCKET_VERIFY="1",
    )
    assert program.lines == ["kept True"]
    said = "hocket: Adapted.backbone.0.weight (float32, (1024, 1024)) was declared constant, and has been written to"
    assert program.stderr.count(said) == 1, program.stderr


@pytest.mark.parametrize("writer", ["first", "second"])
def test_a_write_through_either_of_two_tensors_with_one_memory_takes_the_promise_back(
    world: World, writer: str
) -> None:
    """``.data`` makes a tensor whose writes PyTorch counts apart."""
    program = run(
        world,
        f"""
        first = torch.ones(1024, 1024, device="cuda")
        second = first.data
        assert hocket.constant([first, second]) == first.nbytes
        train(3)
        {writer}.mul_(2)
        train(3)
        print("kept", torch.equal(first.cpu(), torch.full((1024, 1024), 2.0)))
        """,
        HOCKET_VERIFY="1",
    )
    assert program.lines == ["kept True"], program.stderr
    assert program.stderr.count("was declared constant, and has been written to") == 1, program.stderr


def test_a_slice_that_another_library_made_is_refused(world: World) -> None:
    """It has a storage of its own, and what is in the rest of the memory may change."""
    program = run(
        world,
        """
        whole = torch.ones(1024, 1024, device="cuda")
        part = torch.from_dlpack(whole[:512])
        try:
            hocket.constant(part)
        except ValueError as error:
            print(error.args[0].splitlines()[0])
        print(hocket.constant(whole) == whole.nbytes)
        """,
    )
    refused = "tensor 0 (float32, (512, 1024)) has 2.0 MiB of memory that was allocated as 4.0 MiB"
    assert program.lines[0].startswith(refused), program.lines
    assert program.lines[1] == "True", program.stderr


@pytest.mark.parametrize("kind", ["foreach", "fused"])
def test_weights_that_learn_after_all_are_copied_again(world: World, kind: str) -> None:
    """Operators over lists of tensors, which optimizers use, do not raise the versions of what they write to."""
    program = run(
        world,
        f"""
        hocket.constant(model)
        train(3)
        weight = model.backbone[0].weight
        optimizer = torch.optim.AdamW([weight.requires_grad_(True)], lr=1e-2, {kind}=True)
        before = weight.detach().clone()
        train(3)
        print("learns", not torch.equal(weight, before))
        expected = weight.detach().clone()
        train(1)
        for _ in hocket.steps(range(2)):
            pass
        print("copied", (weight - expected).abs().max().item() > 0)
        """,
        HOCKET_VERIFY="1",
    )
    assert program.lines == ["learns True", "copied True"]
    assert program.stderr.count("and an optimizer has a gradient for it") == 1, program.stderr


def test_the_promise_can_be_taken_back_before_a_write(world: World) -> None:
    program = run(
        world,
        """
        hocket.constant(model)
        train(2)
        hocket.constant(model, False)
        model.backbone[0].weight.data.fill_(3)
        train(2)
        print("kept", (model.backbone[0].weight == 3).all().item())
        """,
        HOCKET_VERIFY="1",
    )
    assert program.lines == ["kept True"]
    assert "declared constant" not in program.stderr


def test_a_write_behind_pytorchs_back_is_found_by_verify(world: World) -> None:
    program = start(
        world,
        """
        hocket.constant(model)
        train(2)
        print("address", model.backbone[2].weight.data_ptr(), flush=True)
        model.backbone[2].weight.data[0, 0] = 7.0
        train(2)
        """,
        HOCKET_VERIFY="1",
    )
    address = int(program.expect("address").split()[1])
    assert program.wait() != 0
    assert f"HOCKET_VERIFY: from 0x{address:x} on, bytes changed that were declared constant" in program.stderr
    named = f"Adapted.backbone.2.weight (float32, (1024, 1024)), {4 << 20} bytes from 0x{address:x} on"
    assert named in program.stderr, program.stderr
    assert "hocket.constant(it, False)" in program.stderr


def test_buffers_count_only_when_they_are_named(world: World) -> None:
    program = run(
        world,
        """
        model.requires_grad_(False)
        all = hocket.constant(model)
        print(all == sum(p.nbytes for p in model.parameters()))
        print(hocket.constant(model.norm.running_mean) == model.norm.running_mean.nbytes)
        """,
        HOCKET_VERIFY="1",
    )
    assert program.lines == ["True", "True"]


def test_weights_for_inference_are_copied_once(world: World) -> None:
    program = run(
        world,
        """
        with torch.inference_mode():
            weight = torch.randn(1024, 1024, device="cuda")
            hocket.constant([weight, *model.requires_grad_(False).eval().buffers()])
            for _ in hocket.steps(range(4)):
                total = (x @ weight).sum()
        print("spared", moved("spared_total") >= 2 * weight.nbytes)
        """,
        HOCKET_VERIFY="1",
    )
    assert program.lines == ["spared True"]


def test_under_pytorchs_own_allocator_it_has_no_effect_and_says_so_once(world: World) -> None:
    program = run(
        world,
        """
        print(hocket.constant(model), hocket.constant(model))
        print("loss", train(2) > 0)
        """,
        HOCKET_ALLOCATOR="native",
    )
    assert program.lines == ["0 0", "loss True"]
    assert program.stderr.count("cannot be declared constant under PyTorch's own allocator") == 1
