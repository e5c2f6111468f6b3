"""Threads that wait for their next task for a while, about as long as it takes until they are parked, and look at
what they hold on the device, or change it.

    wakes.py NAME ROUNDS

Says "ROUNDS rounds" at the end. Ends with an error if a thread finds what it has not left there.
"""

import queue
import random
import sys
import threading
import time

import hocket
import torch

COUNT = 4 << 20  # floats of each thread: 16 MiB
TASKS = ("one", "some", "all", "write", "forward", "backward")


class Worker(threading.Thread):
    def __init__(self, value: float) -> None:
        super().__init__(daemon=True)
        self.tasks: queue.Queue[str] = queue.Queue()
        self.answers: queue.Queue[bool] = queue.Queue()
        self._value = value
        self.start()

    def run(self) -> None:
        try:
            self._work()
        except Exception:
            self.answers.put(False)  # nobody waits for more
            raise

    def _work(self) -> None:
        self._held = torch.full((COUNT,), self._value, device="cuda")
        self._weights = torch.ones(COUNT // 4, device="cuda", requires_grad=True)
        self._gradients = torch.ones(COUNT // 4, device="cuda")
        self._results: torch.Tensor | None = None
        while True:
            self.answers.put(self._do(self.tasks.get()))

    def _do(self, task: str) -> bool:
        if task == "one":
            return self._held[12345].item() == self._value
        if task == "some":
            return self._held[::4096].sum().item() == self._value * (COUNT // 4096)
        if task == "all":
            return bool((self._held.cpu() == self._value).all())
        if task == "write":
            self._held.add_(1)
            self._value += 1
        if task == "forward":
            self._results = self._weights * 3
        if task == "backward" and self._results is not None:
            self._weights.grad = None
            self._results.backward(self._gradients)
            self._results = None
            return self._weights.grad[77].item() == 3
        return True


name, rounds = sys.argv[1], int(sys.argv[2])
hocket.join(name=name)
chance = random.Random(name)
workers = [Worker(value) for value in (1, 2, 3)]
for _ in range(rounds):
    for worker in workers:
        worker.tasks.put(chance.choice(TASKS))
    assert all([worker.answers.get() for worker in workers])
    time.sleep(chance.uniform(0, 2))
print(rounds, "rounds")
