"""CUDA graphs captured once and replayed across spills: ``graphs.py --rounds 4``. Ends with "right"."""

from __future__ import annotations

import argparse

import hocket

parser = argparse.ArgumentParser()
parser.add_argument("--rounds", type=int, default=4)
options = parser.parse_args()
hocket.join(name="graphs")
import torch  # noqa: E402

from tests.gpu.programs import said  # noqa: E402


def whole(*shape: int) -> torch.Tensor:
    """Whole numbers: sums of their products are exact, whatever kernel the library picks."""
    return torch.randint(-4, 5, shape, device="cuda").float()


def main() -> None:
    torch.manual_seed(0)
    weight, given = whole(256, 256), torch.zeros(64, 256, device="cuda")

    def work(x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x @ weight).sum(1) * 2

    with hocket.step():
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            work(given)
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            result = work(given)
    said.line("captured")
    for i in hocket.steps(range(options.rounds)):
        rows = whole(64, 256)
        given.copy_(rows)
        graph.replay()
        assert torch.equal(result, work(rows)), f"step {i}: the replayed graph gave something else"
        weight.mul_(0.5)
        said.line(f"step {i}")
    said.holdings()
    said.line("right")


if __name__ == "__main__":
    main()
