"""What scripts/measure-operators is known to find, by name; whatever else it finds, or no longer finds, is a surprise.

docs/emulator.md says why. An entry that is mended must leave its list.
"""

from __future__ import annotations

import importlib.metadata
from typing import Any

# Refused, and what the refusal names: no CUDA kernel, as on a GPU.
DIFFERENT: dict[str, dict[str, str]] = {
    "operators": {"sparse.mm.reduce": "aten::_sparse_mm_reduce_impl"},
    "modules": {},
    "optimizers": {},
}

# Samples that PyTorch's CPU kernels themselves refuse: nothing can be compared.
REFUSED_BY_CPU: dict[str, dict[str, int]] = {"operators": {}, "modules": {}, "optimizers": {}}

# Values that are not the same each time on the CPU either: at most so many samples are caught at it, and others may
# differ. By torch's version; of a version that is not named, none do.
UNSTEADY: dict[str, dict[str, dict[str, int]]] = {
    "2.11": {"operators": {"linalg.lstsq": 18, "linalg.lstsq.grad_oriented": 18}},  # of 36 each
}


def unsteady(kind: str, torch_version: str) -> dict[str, int]:
    """The entries of UNSTEADY for a full version as `2.11.0+cu130`."""
    return UNSTEADY.get(".".join(torch_version.split(".")[:2]), {}).get(kind, {})


def surprises(
    kind: str, outcomes: dict[str, dict[str, Any]], whole: bool, torch_version: str | None = None
) -> list[str]:
    """Sentences about what is not as listed for `torch_version` (None: the one installed).

    `whole`: every entry was measured, so a missing one is a surprise.
    """
    known = DIFFERENT[kind]
    may_vary = unsteady(kind, torch_version or importlib.metadata.version("torch"))
    different = {name: outcome["difference"] for name, outcome in outcomes.items() if outcome["difference"] is not None}
    found = [
        f"{name}: {text}"
        for name, text in sorted(different.items())
        if not (name in known and known[name] in text) and not (name in may_vary and "values differ" in text)
    ]
    found += [f"{name} gives the same bits now" for name in sorted(set(known) & set(outcomes) - set(different))]
    for part, listed in (("refused_by_cpu", REFUSED_BY_CPU[kind]), ("unsteady", may_vary)):
        for name, outcome in outcomes.items():
            value = outcome[part]
            count = sum(value.values()) if isinstance(value, dict) else value
            times = listed.get(name, 0)
            if count > times or (count < times and part != "unsteady"):
                found.append(f"{name}: {part} {count}, listed {times}: {value}")
    if whole:
        listed_names = set(known) | set(REFUSED_BY_CPU[kind]) | set(may_vary)
        found += [f"{name} is listed and was not measured" for name in sorted(listed_names - set(outcomes))]
    return found
