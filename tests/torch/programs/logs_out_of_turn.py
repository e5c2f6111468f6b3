"""A job with a thread that Hocket does not know of: it allocates nothing, and reads or writes a tensor while the job is
away. ``logs_out_of_turn.py OPERATION``: what it does, a statement about ``weights``. Says what the thread has seen.
"""

import sys
import threading

import hocket
import torch


def make_weights() -> torch.Tensor:
    return torch.full((1024, 20 * 1024), 3.0, device="cuda")


def logger() -> None:
    sys.stdin.readline()
    try:
        exec(sys.argv[1], {"weights": weights, "threading": threading})
    finally:
        done.set()


weights = make_weights()
torch.cuda.synchronize()
done = threading.Event()
threading.Thread(target=logger, name="logger", daemon=True).start()
with hocket.step():
    pass
print("ready", flush=True)
with hocket.away():
    done.wait()
with hocket.step():
    print("sum", weights.sum().item())
