"""Small persistent and large transient memory: ``arena.py --mib 256 --rounds 4 --name a``; waits at "built".

With ``--hold N`` it waits in step N, too ("held"), with its transient memory.
"""

from __future__ import annotations

import argparse

import hocket

parser = argparse.ArgumentParser()
parser.add_argument("--mib", type=int, default=256)
parser.add_argument("--rounds", type=int, default=4)
parser.add_argument("--name", default="arena")
parser.add_argument("--hold", type=int, default=-1)
options = parser.parse_args()
hocket.join(name=options.name)
import torch  # noqa: E402

from tests.gpu.programs import said  # noqa: E402


def main() -> None:
    weight = torch.ones(1000, device="cuda")
    # Kernels that the steps use are loaded now, so that their code is not counted as the steps' memory.
    assert (torch.full((1 << 20,), 3, dtype=torch.uint8, device="cuda") == 3).all()
    said.line("built")
    said.wait_for_go()
    for i in hocket.steps(range(options.rounds)):
        transient = torch.full((options.mib << 20,), i + 1, dtype=torch.uint8, device="cuda")
        assert int(transient[:: 1 << 16].sum(dtype=torch.int64)) == (i + 1) * (options.mib << 4)
        if i == options.hold:
            said.line("held")
            while not said.told_to_go(within=0.02):
                torch.empty(1, device="cuda")  # who does not use its turn loses it
        weight.add_(1)
        del transient
        said.line(f"step {i}")
    assert weight[0].item() == options.rounds + 1
    said.holdings()
    said.line("done")


if __name__ == "__main__":
    main()
