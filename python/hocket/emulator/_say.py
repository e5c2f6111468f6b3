"""One line on stderr, once for each subject and program (rank 0 where there are ranks)."""

from __future__ import annotations

import os
import sys

_said: set[str] = set()


def once(subject: str, sentence: str) -> None:
    if subject in _said:
        return
    _said.add(subject)
    if os.environ.get("LOCAL_RANK", "0") == "0":
        print(f"hocket: {sentence}", file=sys.stderr, flush=True)
