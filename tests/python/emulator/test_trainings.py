"""The trainings of which histories are recorded and figures made: each trains, tidy and not."""

from __future__ import annotations


def test_every_training_trains_and_leaves_gradients_behind_only_where_it_is_untidy(emulator):
    assert (
        emulator.output("""
import math
from tests.bench import more_jobs
for kind in more_jobs.KINDS:
    for tidy in (True, False):
        job = more_jobs.make(kind, "small", tidy)
        before = [p.detach().clone() for p in job.model.parameters() if p.requires_grad]
        losses = [job.step(i).item() for i in range(4)]
        after = [p for p in job.model.parameters() if p.requires_grad]
        assert all(map(math.isfinite, losses)), (kind, losses)
        assert not any(torch.equal(a, b) for a, b in zip(before, after)) or kind == "lora", kind
        left = any(p.grad is not None for p in job.model.parameters()) and bool(job.kept)
        assert left != tidy, (kind, tidy)
print("all", len(more_jobs.KINDS))
""")
        == "all 9"
    )
