"""Serves: each line on standard input is a request, which it answers with a number.

    serve.py --name s [--layers L] [--width W] [--hold N] [--plain]

Lines: "ready", "answer N VALUE", "in N" inside request N where ``--hold N`` waits for another line, "done turns=T".
"""

from __future__ import annotations

import argparse
import sys


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--name", default="serve")
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--hold", type=int, default=-1)
    parser.add_argument("--plain", action="store_true", help="serves, as `hocket run --serves` says: without a line")
    return parser.parse_args()


options = parse()
import hocket  # noqa: E402

if not options.plain:
    hocket.join(name=options.name, serves=True)
import torch  # noqa: E402
from torch import nn  # noqa: E402


def main() -> None:
    torch.manual_seed(7)
    model = nn.Sequential(*(nn.Linear(options.width, options.width) for _ in range(options.layers))).to("cuda")
    with torch.no_grad(), hocket.step():
        model(torch.zeros(1, options.width, device="cuda")).sum().item()
    print("ready", flush=True)
    for number, _line in enumerate(iter(sys.stdin.readline, "end\n")):
        with torch.no_grad(), hocket.step():
            asked = torch.full((4, options.width), float(number), device="cuda")
            if number == options.hold:
                print("in", number, flush=True)
                sys.stdin.readline()
            value = model(asked).sum().item()
        print("answer", number, value.hex(), flush=True)
    from hocket import _native

    print("done", f"turns={_native.info()['turns']}", flush=True)


if __name__ == "__main__":
    main()
