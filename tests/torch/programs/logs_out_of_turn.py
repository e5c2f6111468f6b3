"""A job with a thread that makes no step and allocates nothing: it reads or writes a tensor while the job is away.
``logs_out_of_turn.py OPERATION [visits]``: what it does, a statement about ``weights``. Says what the thread has seen.
Hocket does not know of the thread, which Python's ``threading`` has not started; but of one that ``visits``.
"""

import _thread
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
if sys.argv[2:] == ["visits"]:
    threading.Thread(target=logger, daemon=True).start()
else:
    _thread.start_new_thread(logger, ())
with hocket.step():
    pass
print("ready", flush=True)
with hocket.away():
    done.wait()
with hocket.step():
    print("sum", weights.sum().item())
