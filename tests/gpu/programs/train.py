"""One of tests/bench/jobs.py's trainings, deterministic; writes its losses to the last bit.

    train.py --kind gpt --size small --steps 6 --losses FILE [--plain] [--compile MODE]

``--plain``: without a line of Hocket. Lines: "built", "step N", "done", with Hocket what it moved, and with
``--compile`` what became of CUDA graphs: whether torch's compiler makes them here, how many pieces of the model go
without, and how many inputs those have that were captured.
"""

from __future__ import annotations

import argparse
import os

os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"  # what PyTorch's deterministic algorithms ask for

parser = argparse.ArgumentParser()
parser.add_argument("--kind", required=True)
parser.add_argument("--size", default="small")
parser.add_argument("--steps", type=int, default=4)
parser.add_argument("--losses", required=True)
parser.add_argument("--plain", action="store_true")
parser.add_argument("--compile", default="")
options = parser.parse_args()
if not options.plain:
    import hocket

    hocket.join(name=f"{options.kind}-{os.getpid()}")
import torch  # noqa: E402

from tests.bench import jobs  # noqa: E402
from tests.gpu.programs import said  # noqa: E402


def main() -> None:
    torch.use_deterministic_algorithms(True)  # where a kernel has no such form, an error
    torch.backends.cudnn.benchmark = False
    job = jobs.make(options.kind, options.size)
    if options.compile:
        job.model = torch.compile(job.model, mode=options.compile)
    said.line("built")
    losses = []
    numbers = range(options.steps)
    for i in numbers if options.plain else hocket.steps(numbers):
        losses.append(job.step(i).item())
        said.line(f"step {i}")
    with open(options.losses, "w", encoding="ascii") as file:
        file.writelines(f"{loss.hex()}\n" for loss in losses)
    if not options.plain:
        said.holdings()
    if options.compile:
        from torch._dynamo.utils import counters

        counted = counters["inductor"]
        said.data(
            "graphs",
            made=bool(counted),  # the emulated GPU compiles in another way, and counts nothing
            without=counted["cudagraph_skips"],
            captured_inputs=counted["cudagraph_recorded_non_static_inputs"],
        )
    said.line("done")


if __name__ == "__main__":
    main()
