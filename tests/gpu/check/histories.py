"""Records the allocation histories of the trainings, tidy and untidy ones, on this device: in a folder, and packed."""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess
import sys
import tarfile
from concurrent.futures import ThreadPoolExecutor, as_completed

from tests.bench import harness, sizes
from tests.bench.histories import recordings
from tests.gpu.check.build import HISTORIES, ROOT, WORK

FILE = WORK / "histories.tar.gz"
LARGEST = 12 * sizes.GIB  # that one of the trainings takes of the device


def pack(folder: pathlib.Path) -> None:
    """Makes FILE of what there is so far; whoever reads it meanwhile finds it whole."""
    with tarfile.open(FILE.with_suffix(".new"), "w:gz") as tar:
        for path in sorted(folder.glob("*.txt.gz")):
            tar.add(path, path.name)
    FILE.with_suffix(".new").rename(FILE)


def at_once(emulated: bool) -> int:
    """How many are recorded beside each other: as processors and the device's memory allow."""
    processors = len(os.sched_getaffinity(0))
    if emulated:
        return processors
    harness.use(emulated)
    return max(1, min(processors // 3, sizes.free("", "") // LARGEST))


def wanted(quick: bool) -> dict[str, tuple[str, ...]]:
    """All of them; where it is enough that they can be recorded, a single untidy one."""
    every = recordings()
    return {name: how for name, how in every.items() if not quick or "--untidy" not in how or name == "gpt-untidy"}


def main() -> int:
    emulated = "--emulate" in sys.argv
    prefix = ["hocket", "emulate", "--name", "gpu-check-histories", "--memory", "2GiB", "--"] if emulated else []
    shutil.rmtree(HISTORIES, ignore_errors=True)
    HISTORIES.mkdir(parents=True)
    beside = at_once(emulated)
    environment = {**os.environ, "OMP_NUM_THREADS": str(max(1, len(os.sched_getaffinity(0)) // beside))}

    def record(name: str, how: tuple[str, ...]) -> str:
        """The name, if that fails."""
        command = [*prefix, sys.executable, "-m", "tests.gpu.programs.history", *how]
        command += ["--size", "small" if emulated else "full", f"{HISTORIES}/{name}.txt.gz"]
        return name if subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode else ""

    failed, every = [], wanted("--quick" in sys.argv)
    with ThreadPoolExecutor(beside) as pool:
        for done in as_completed([pool.submit(record, *each) for each in every.items()]):
            pack(HISTORIES)
            failed += [done.result()] if done.result() else []
    print(f"failed: {failed}" if failed else "all recorded")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
