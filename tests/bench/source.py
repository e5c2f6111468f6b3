"""Which sources a figure was measured with: the commit that a bundle notes of them, else git's.

A bundle (scripts/offline-bundle) notes the commit beside a fingerprint of the sources. It is believed while the
fingerprint is the same: a machine may have the sources without their history, or with an older one.
"""

from __future__ import annotations

import hashlib
import json
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
NOTE = ROOT / "build" / "gpu-check" / "bundle" / "SOURCE.json"
# What a figure can depend on.
PLACES = ("allocator", "coordinator", "csrc", "python", "cmake", "tests", "scripts")
FILES = ("CMakeLists.txt", "setup.py", "pyproject.toml")


def fingerprint() -> str:
    """A digest of the names and contents of all sources."""
    paths = [p for place in PLACES for p in (ROOT / place).rglob("*")] + [ROOT / name for name in FILES]
    digest = hashlib.sha256()
    for path in sorted(paths):
        made = "__pycache__" in path.parts or any(part.endswith(".egg-info") for part in path.parts)
        if not made and path.suffix != ".so" and path.is_file():
            digest.update(str(path.relative_to(ROOT)).encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()


def _git(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True, text=True)


def _described() -> str:
    """The commit, with ``-dirty`` where what it says is not what is here; "" where there is no history.

    A record that one benchmark has written does not make the next one's sources others.
    """
    described = _git("describe", "--always").stdout.strip()
    changed = described and _git("diff", "--quiet", "HEAD", "--", ".", ":(exclude)docs/results").returncode
    return f"{described}-dirty" if changed else described


def commit() -> str:
    """As ``git describe --always --dirty``, without regard to docs/results; "unknown" where nobody can say."""
    note = json.loads(NOTE.read_text()) if NOTE.exists() else {}
    if note and note["fingerprint"] == fingerprint():
        return note["commit"]
    try:
        described = _described()
    except FileNotFoundError:  # no git
        described = ""
    if described or not note:
        return described or "unknown"
    return f"{note['commit'].removesuffix('-dirty')}-dirty"


def write_note(path: str) -> None:
    """Writes the note of a bundle."""
    pathlib.Path(path).write_text(json.dumps({"commit": commit(), "fingerprint": fingerprint()}) + "\n")
