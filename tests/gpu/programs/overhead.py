"""Makes a context, then uses one library after another; waits for a line after each, so that the test can measure.

``overhead.py plain`` or ``overhead.py hocket``: with PyTorch's allocator or with Hocket's.
"""

from __future__ import annotations

import sys

if sys.argv[1] == "hocket":
    import hocket  # noqa: F401
import torch
from torch.nn import functional

from tests.gpu.programs import said


def stages() -> list[tuple[str, object]]:
    x = torch.ones(64, 64)
    image, weight = torch.ones(1, 3, 32, 32), torch.ones(4, 3, 3, 3)
    heads = torch.ones(1, 2, 16, 32, dtype=torch.bfloat16)
    return [
        ("context", lambda: torch.zeros(1, device="cuda")),
        ("matrix product (cuBLAS)", lambda: x.cuda() @ x.cuda()),
        ("bf16 matrix product", lambda: x.cuda().bfloat16() @ x.cuda().bfloat16()),
        ("convolution (cuDNN)", lambda: functional.conv2d(image.cuda(), weight.cuda())),
        ("attention", lambda: functional.scaled_dot_product_attention(*[heads.cuda()] * 3)),
    ]


for name, work in stages():
    work()
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    said.data("stage", after=name, blocks=torch.cuda.memory_reserved())
    said.wait_for_go()
