"""Takes steps, forks in the fourth, and stays there, in that step.

Both say what files and memory they have, one line each: "parent descriptor pipe:[12]", "child memory rw-p BYTES FILE".
The child waits for a line and ends.
"""

import os
import pathlib
import sys

import hocket

hocket.join(name="forking")
import in_use  # noqa: E402
import torch  # noqa: E402
from torch import nn  # noqa: E402


def say_what_there_is(who: str) -> None:
    for entry in sorted(os.listdir("/proc/self/fd"), key=int):
        if os.path.islink(f"/proc/self/fd/{entry}"):  # not the one of this listing
            print(f"{who} descriptor {os.readlink(f'/proc/self/fd/{entry}')}", flush=True)
    for line in pathlib.Path("/proc/self/maps").read_text().splitlines():
        fields = line.split(maxsplit=5)
        first, last = (int(address, 16) for address in fields[0].split("-"))
        print(f"{who} memory {fields[1]} {last - first} {fields[5] if len(fields) > 5 else ''}", flush=True)


model = nn.Sequential(*(nn.Linear(1024, 1024) for _ in range(4))).to("cuda")
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, foreach=False)
for i, rows in enumerate(hocket.steps([torch.randn(8, 1024) for _ in range(4)], optimizer=optimizer)):
    model(rows.to("cuda")).square().mean().backward()
    optimizer.step()
    if i == 3:
        say_what_there_is("parent")
        if os.fork() == 0:
            say_what_there_is("child")
            print("forked", flush=True)
            sys.stdin.readline()
            print("the child ends", flush=True)
            os._exit(0)
        in_use.until_readable(0)
