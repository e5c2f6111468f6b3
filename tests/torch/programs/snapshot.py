"""Does what each entry of a memory snapshot is made by, and prints what PyTorch shows of it, as a line of JSON.

The same program under every allocator; the device has 256 MiB.
"""

import contextlib
import json

import hocket  # noqa: F401
import torch

MIB = 1 << 20


def block(size: int) -> torch.Tensor:
    return torch.empty(size, dtype=torch.uint8, device="cuda")


def keys(entries: list[dict]) -> list[str]:
    """``key: type`` of all that any of them has."""
    return sorted({f"{key}: {type(value).__name__}" for entry in entries for key, value in entry.items()})


def action(entry: dict) -> str:
    """Under Hocket's allocator memory comes and goes as that of expandable segments does."""
    return entry["action"].replace("_map", "_alloc").replace("_unmap", "_free")


older = block(1000)
torch.cuda.memory._record_memory_history(max_entries=1000, stacks="python", global_record_annotations=True)
with torch.profiler.record_function("forward"):
    x = block(40 * MIB)
annotate = getattr(torch.cuda.memory, "_annotate_tensor", None)
if annotate is not None:
    annotate(older, "older")
    annotate(x[100:], "a view")
    torch.cuda.memory._set_memory_metadata("the program's note")
    annotate(x, "its own words")
    y = block(1001)
    torch.cuda.memory._set_memory_metadata("")
with contextlib.suppress(torch.OutOfMemoryError):
    block(1 << 40)
del x
torch.cuda.empty_cache()
torch.cuda.memory._snapshot()
snapshot = torch.cuda.memory._snapshot()

trace = snapshot["device_traces"][0]
said = [(e["action"], e["size"], e.get("user_metadata")) for e in trace if not e["action"].startswith("segment")]
stacks = [(e["action"], [f["name"] for f in e.get("frames", [])]) for e in trace if "segment" not in e["action"]]
print(
    json.dumps(
        {
            "snapshot": keys([snapshot]),
            "segments": keys(snapshot["segments"]),
            "blocks": keys([block for segment in snapshot["segments"] for block in segment["blocks"]]),
            "traces": {each: keys([e for e in trace if action(e) == each]) for each in sorted(set(map(action, trace)))},
            "entries": said,
            "stacks": stacks,
            "annotations": [{k: v for k, v in a.items() if k != "time_us"} for a in snapshot["external_annotations"]],
            "keys of annotations": keys(snapshot["external_annotations"]),
            "settings": {k: v for k, v in snapshot["allocator_settings"].items() if k != "PYTORCH_CUDA_ALLOC_CONF"},
        }
    )
)
