"""Holds tensors over many steps and looks, in each, whether they are where and what they were.

    keep.py --mib 64 --rounds 6 [--name NAME] [--hold PLACE] [--until-told]

Every round each tensor is changed by a kernel, and so is its copy on the host; the next round compares address and
bytes. Odd sizes, many types, and bits that no float arithmetic touches. Lines: "warm", "built", "step N", then what was
moved and "kept". ``--hold warm``, ``--hold built`` or ``--hold N`` waits for a line on standard input there. With
``--until-told`` it goes on until a line comes.
"""

from __future__ import annotations

import argparse
import itertools
import select
import sys

import hocket

parser = argparse.ArgumentParser()
parser.add_argument("--mib", type=int, default=64)
parser.add_argument("--rounds", type=int, default=6)
parser.add_argument("--name", default="keep")
parser.add_argument("--hold", default="")
parser.add_argument("--until-told", action="store_true")
options = parser.parse_args()
hocket.join(name=options.name)
import torch  # noqa: E402

from tests.gpu.programs import said  # noqa: E402


def reached(place: object) -> None:
    said.line(f"step {place}" if isinstance(place, int) else str(place))
    if options.hold == str(place):
        said.wait_for_go()


def build() -> list[torch.Tensor]:
    """Tensors of all kinds, the largest of them half of --mib."""
    torch.manual_seed(1)
    kept = [torch.randint(0, 256, (n,), dtype=torch.uint8) for n in (1, 511, 513, 4097, (1 << 20) + 3, 5 << 20)]
    kept += [torch.randint(-(2**62), 2**62, (n,)) for n in (3, 70_001)]
    kept += [torch.randn(1000, 17), torch.randn(333).half(), torch.randn(99).bfloat16(), torch.rand(64) > 0.5]
    kept.append(torch.arange(options.mib << 17, dtype=torch.int32).mul_(-1_640_531_535))
    left = (options.mib << 20) - sum(t.nbytes for t in kept)
    kept += [torch.arange(left // 28, dtype=torch.int32).mul_(77_777_777 + n) for n in range(7 if left > 0 else 0)]
    return kept


def bits(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.view(torch.uint8) if tensor.dtype != torch.bool else tensor.to(torch.uint8)


def change(tensor: torch.Tensor, i: int) -> None:
    """The same on the host and on the device, to the last bit."""
    if tensor.dtype == torch.bool:
        tensor.logical_not_()
    else:
        tensor.view(torch.uint8).bitwise_xor_(i % 251 + 1)


def warm() -> None:
    """Loads the kernels that the steps use: on a device that is full later there may be no room for their code."""
    for tensor in (torch.zeros(64, dtype=torch.uint8).cuda(), torch.zeros(64, dtype=torch.bool).cuda()):
        change(tensor, 0)
        bits(tensor).cpu()


def main() -> None:
    warm()
    reached("warm")
    expected = build()
    kept = [tensor.cuda() for tensor in expected]
    addresses = [tensor.data_ptr() for tensor in kept]
    reached("built")
    for i in hocket.steps(itertools.count() if options.until_told else range(options.rounds)):
        assert [tensor.data_ptr() for tensor in kept] == addresses, "a tensor has moved"
        for number, (tensor, truth) in enumerate(zip(kept, expected, strict=True)):
            assert torch.equal(bits(tensor.cpu()), bits(truth)), f"step {i}: tensor {number} has other bytes"
            change(tensor, i), change(truth, i)
        reached(i)
        if options.until_told and select.select([sys.stdin], [], [], 0)[0]:
            break
    said.data("bytes", all=sum(tensor.nbytes for tensor in kept))
    said.holdings()
    said.line("kept")


if __name__ == "__main__":
    main()
