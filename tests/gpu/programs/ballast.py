"""A program that Hocket does not manage, holding all but ``--leave`` bytes of the device until a line comes.

Says "holding N"; at the end looks whether its bytes are what they were and says "unchanged".
"""

from __future__ import annotations

import argparse

import torch

from tests.gpu.programs import said

parser = argparse.ArgumentParser()
parser.add_argument("--leave", type=int, required=True)
options = parser.parse_args()
PIECE = 64 << 20


def main() -> None:
    first = torch.ones(1, device="cuda")
    assert first.add_(1).item() == 2  # its kernels are loaded
    held = []
    while (room := torch.cuda.mem_get_info()[0] - options.leave) > 2 << 20:
        held.append(torch.full((min(PIECE, room // (2 << 20) * (2 << 20)),), 5, dtype=torch.uint8, device="cuda"))
    said.line(f"holding {sum(t.nbytes for t in held)}")
    said.wait_for_go()
    # (compared on the host: there is no room left here)
    assert all(bool((t.cpu() == 5).all()) for t in held[:2]), "somebody wrote into an unmanaged program's memory"
    said.line("unchanged")


if __name__ == "__main__":
    main()
