"""Holds numbers on the device, and waits for a line on standard input in one of several ways; then looks at them.

    idles.py HOW COUNT

Lines: "idles", then "LAST SUM" of the numbers 0 to COUNT - 1; of "backward" those of as many gradients, each 2.
"""

import asyncio
import code
import concurrent.futures
import contextlib
import multiprocessing
import multiprocessing.connection
import os
import queue
import sys
import threading

import hocket
import torch

numbers: torch.Tensor


def build(count: int) -> None:
    global numbers
    numbers = torch.arange(count, device="cuda", dtype=torch.int32)
    torch.cuda.synchronize()


def look() -> str:
    return f"{numbers[-1].item()} {numbers.sum().item()}"


def in_a_queue(count: int) -> str:
    lines: queue.Queue[str] = queue.Queue()
    build(count)
    threading.Thread(target=lambda: lines.put(sys.stdin.readline())).start()
    print("idles", flush=True)
    lines.get()
    return look()


def in_a_queue_before_backward(count: int) -> str:
    """Of what follows the wait, autograd's thread does the first operator."""
    lines: queue.Queue[str] = queue.Queue()
    weights = torch.ones(count // 3, device="cuda", requires_grad=True)
    results, gradients = weights * 2, torch.ones(count // 3, device="cuda")
    torch.cuda.synchronize()
    threading.Thread(target=lambda: lines.put(sys.stdin.readline())).start()
    print("idles", flush=True)
    lines.get()
    results.backward(gradients)
    assert weights.grad is not None
    return f"{int(weights.grad[-1].item())} {int(weights.grad.sum().item())}"


def in_a_pool(count: int) -> str:
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        pool.submit(build, count).result()
        print("idles", flush=True)
        sys.stdin.readline()
        return pool.submit(look).result()


def serve(connection: multiprocessing.connection.Connection, count: int) -> None:
    build(count)
    connection.send("idles")
    connection.recv()
    connection.send(look())


def in_another_process(count: int) -> str:
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    context.Process(target=serve, args=(theirs, count), daemon=True).start()
    print(ours.recv(), flush=True)
    ours.send(sys.stdin.readline())
    return ours.recv()


async def in_a_loop(count: int) -> str:
    build(count)
    told = asyncio.Event()
    asyncio.get_running_loop().add_reader(0, told.set)
    print("idles", flush=True)
    await told.wait()
    return look()


class End:
    def __repr__(self) -> str:
        raise SystemExit


def at_a_prompt(count: int) -> str:
    build(count)
    print("idles", flush=True)
    sys.ps1 = ""
    with contextlib.suppress(SystemExit):
        code.interact("", local={"go": End()}, exitmsg="")
    return look()


def in_its_own_code(count: int) -> str:
    threading.Thread(target=threading.Event().wait, daemon=True).start()  # one that does wait
    build(count)
    print("idles", flush=True)
    os.read(0, 100)
    return look()


if __name__ == "__main__":
    hocket.join(name="idle")
    ways = {
        "queue": in_a_queue,
        "backward": in_a_queue_before_backward,
        "pool": in_a_pool,
        "process": in_another_process,
        "loop": lambda count: asyncio.run(in_a_loop(count)),
        "prompt": at_a_prompt,
        "own code": in_its_own_code,
    }
    print(ways[sys.argv[1]](int(sys.argv[2])), flush=True)
