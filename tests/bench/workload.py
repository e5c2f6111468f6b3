"""A worker that trains a small GPT in blocks; see harness.Worker.

Arguments: ``plain`` (no Hocket) or ``hocket`` (joined, one step per iteration). A request ``{"steps": n}`` runs n
steps and answers with the wall and CPU seconds they took and, where the kernel counts them, the instructions
retired by this process.
"""

from __future__ import annotations

import ctypes
import json
import os
import struct
import sys
import time


class Instructions:
    """Instructions retired by this process and its later threads (perf_event_open(2)); None where the kernel cannot."""

    def __init__(self) -> None:
        # struct perf_event_attr: type HARDWARE (0), size 112, config INSTRUCTIONS (1), flags inherit + exclude_kernel
        # + exclude_hv.
        attr = struct.pack("=IIQQQQQ", 0, 112, 1, 0, 0, 0, (1 << 1) | (1 << 5) | (1 << 6)).ljust(112, b"\0")
        libc = ctypes.CDLL(None, use_errno=True)
        self._fd = libc.syscall(298, attr, 0, -1, -1, 0)

    def read(self) -> int | None:
        return struct.unpack("q", os.read(self._fd, 8))[0] if self._fd >= 0 else None


def main() -> None:
    mode = sys.argv[1]
    spin_ms = float(sys.argv[2]) if len(sys.argv) > 2 else 0.0  # timing mode: device time of a step
    counter = Instructions()  # before threads start, so that they inherit it
    if mode == "hocket":
        import hocket
    import torch
    from torch import nn

    torch.set_num_threads(1)
    torch.manual_seed(0)
    width, context, vocabulary = 128, 64, 96
    model = nn.Sequential(
        nn.Embedding(vocabulary, width),
        nn.TransformerEncoder(
            nn.TransformerEncoderLayer(width, 4, 4 * width, dropout=0.0, batch_first=True, norm_first=True),
            2,
            enable_nested_tensor=False,
        ),
        nn.Linear(width, vocabulary),
    ).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    tokens = torch.randint(0, vocabulary, (8, context + 1), device="cuda")
    cycles = int(spin_ms * 1e-3 * torch.cuda.get_device_properties(0).clock_rate * 1e3) if spin_ms else 0

    def train() -> None:
        logits = model(tokens[:, :-1])
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if cycles:
            torch.cuda._sleep(cycles)

    def block(steps: int) -> None:
        if mode == "hocket":
            for _ in hocket.steps(range(steps)):
                train()
        else:
            for _ in range(steps):
                train()
        torch.cuda.synchronize()

    for line in sys.stdin:
        steps = json.loads(line)["steps"]
        before, wall, cpu = counter.read(), time.perf_counter(), time.process_time()
        block(steps)
        answer = {"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu}
        after = counter.read()
        if before is not None and after is not None:
            answer["instructions"] = after - before
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
