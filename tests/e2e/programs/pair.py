"""One of two jobs that wait for each other, as an actor and a learner do.

    pair.py actor|learner --address FILE --rounds N --losses FILE

The actor asks, and waits for the answer in the midst of its step; the learner answers in a step of its own. Lines:
"listens", "round N", "done turns=T".
"""

from __future__ import annotations

import argparse
from multiprocessing.connection import Client, Listener
from pathlib import Path


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("role", choices=["actor", "learner"])
    parser.add_argument("--address", required=True)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--losses", type=Path)
    return parser.parse_args()


options = parse()
import hocket  # noqa: E402

hocket.join(name=options.role)
import torch  # noqa: E402


def act() -> list[str]:
    weights = torch.eye(64, device="cuda")
    seen = []
    with Client(options.address, family="AF_UNIX") as learner:
        for number in hocket.steps(range(options.rounds)):
            acted = weights @ torch.full((64, 64), float(number + 1), device="cuda")
            learner.send(acted.cpu().numpy())
            weights = weights + torch.from_numpy(learner.recv()).to("cuda")  # the learner needs a turn for that
            seen.append(weights.sum().item().hex())
            print("round", number, flush=True)
        learner.send(None)
    return seen


def learn() -> list[str]:
    weights = torch.zeros(64, 64, device="cuda")
    seen = []
    with Listener(options.address, family="AF_UNIX") as listener:
        print("listens", flush=True)
        with listener.accept() as actor:
            while (acted := actor.recv()) is not None:
                with hocket.step():
                    weights += torch.from_numpy(acted).to("cuda") / 64
                    answer = weights.cpu().numpy()
                    seen.append(weights.sum().item().hex())
                actor.send(answer)
    return seen


def main() -> None:
    seen = act() if options.role == "actor" else learn()
    if options.losses:
        options.losses.write_text("\n".join(seen) + "\n")
    from hocket import _native

    print("done", f"turns={_native.info()['turns']}", flush=True)


if __name__ == "__main__":
    main()
