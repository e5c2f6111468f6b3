"""Records the allocation histories of the trainings on this device, into build/gpu-check/histories and packed."""

from __future__ import annotations

import pathlib
import shutil
import subprocess
import sys
import tarfile

from tests.gpu.check.build import HISTORIES, ROOT, WORK

FILE = WORK / "histories.tar.gz"


def pack(folder: pathlib.Path) -> None:
    """Makes FILE of what there is so far; whoever reads it meanwhile finds it whole."""
    with tarfile.open(FILE.with_suffix(".new"), "w:gz") as tar:
        for path in sorted(folder.glob("*.txt.gz")):
            tar.add(path, path.name)
    FILE.with_suffix(".new").rename(FILE)


def main() -> int:
    from tests.bench.more_jobs import KINDS  # imports torch, which those who only want FILE need not

    emulate = "--emulate" in sys.argv
    prefix = ["hocket", "emulate", "--name", "gpu-check-histories", "--memory", "2GiB", "--"] if emulate else []
    failed = []
    shutil.rmtree(HISTORIES, ignore_errors=True)
    HISTORIES.mkdir(parents=True)
    for kind in KINDS:
        command = [sys.executable, "-m", "tests.gpu.programs.history", "--kind", kind]
        command += ["--size", "small" if emulate else "full", f"{HISTORIES}/{kind}.txt.gz"]
        if subprocess.run([*prefix, *command], cwd=ROOT, check=False).returncode:
            failed.append(kind)
        pack(HISTORIES)
    print(f"failed: {failed}" if failed else "all recorded")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
