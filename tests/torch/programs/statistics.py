"""Allocates in every way that torch.cuda.memory_stats() counts, and prints a line of JSON after each.

The same program under every allocator; the device has 256 MiB. What was in use before it began is given back first.
"""

import json

import hocket  # noqa: F401
import torch

MIB = 1 << 20


def block(size: float) -> torch.Tensor:
    return torch.empty(int(size), dtype=torch.uint8, device="cuda")


def say(what: str) -> None:
    print(json.dumps({"what": what, "statistics": torch.cuda.memory_stats()}))


block(1)
torch.cuda.synchronize()
torch.cuda.empty_cache()
torch.cuda.reset_peak_memory_stats()
torch.cuda.reset_accumulated_memory_stats()
say("begin")

sizes = [1, 511, 512, 513, 4000, 100_000, MIB - 1, MIB, MIB + 1, 3 * MIB, 10 * MIB, 10 * MIB + 5, 18 * MIB]
blocks = [block(size) for size in sizes]
say("many sizes")
del blocks[::2]
say("every second one freed")
del blocks
say("all freed")

torch.cuda.reset_peak_memory_stats()
say("peaks reset")
blocks = [block(5 * MIB) for _ in range(4)]
torch.cuda.reset_accumulated_memory_stats()
say("sums reset while blocks live")
del blocks
say("they are freed")
torch.cuda.empty_cache()
say("cache emptied")

other = torch.cuda.Stream()
x = block(3 * MIB)
with torch.cuda.stream(other):
    x.fill_(1)
    y = block(70_000)
    y.fill_(2)
x.record_stream(other)
del x  # still active: nobody has looked whether the other stream is done with it
say("freed while another stream uses it")
torch.cuda.synchronize()
z = block(100)  # looks
say("the other stream is done")
del y, z
torch.cuda.synchronize()
torch.cuda.empty_cache()
say("cache emptied again")

for _ in range(2):
    try:
        block(1 << 40)
    except torch.OutOfMemoryError:
        say("out of memory")
with torch.cuda.stream(other):
    block(100 * MIB)  # is cached, in that stream's order
x = block(200 * MIB)
say("the cache had to go")
del x

pool = torch.cuda.MemPool()
with torch.cuda.use_mem_pool(pool):
    x = block(3 * MIB)
    y = block(100)
say("in a pool")
del x, y
say("the pool's blocks freed")
del pool
torch.cuda.empty_cache()
say("the pool is gone")
torch.cuda.reset_peak_memory_stats()
torch.cuda.reset_accumulated_memory_stats()
say("all reset")
