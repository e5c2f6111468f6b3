"""Says what this machine is, as JSON in build/gpu-check/machine.json: the driver, torch, the card's own words."""

from __future__ import annotations

import json
import os
import pathlib
import platform
import shutil
import subprocess
import sys

from tests.bench import source
from tests.gpu.check.build import WORK

FILE = WORK / "machine.json"


def _first_line(*command: str) -> str:
    if not shutil.which(command[0]):
        return ""
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    return (run.stdout.strip().splitlines() or [""])[0]


def _os() -> str:
    lines = pathlib.Path("/etc/os-release").read_text().splitlines()
    return next((line.split("=", 1)[1].strip('"') for line in lines if line.startswith("PRETTY_NAME=")), "")


def _torch(emulate: bool) -> dict[str, str]:
    look = (
        "import json, torch; p = torch.cuda.get_device_properties(0); "
        "print(json.dumps({'torch': torch.__version__, 'device': p.name, 'memory': p.total_memory, "
        "'processors': p.multi_processor_count, 'cudnn': str(torch.backends.cudnn.version())}))"
    )
    prefix = ["hocket", "emulate", "--name", "gpu-check-look", "--"] if emulate else []
    run = subprocess.run([*prefix, sys.executable, "-c", look], capture_output=True, text=True, check=True)
    return json.loads(run.stdout.splitlines()[-1])


def main() -> None:
    emulate = "--emulate" in sys.argv
    smi = ("nvidia-smi", "--query-gpu=name,driver_version,mig.mode.current,compute_mode,clocks.max.sm,power.limit",
           "--format=csv,noheader")  # fmt: skip
    said = {
        "commit": source.commit(),
        **_torch(emulate),
        "nvidia-smi": "" if emulate else _first_line(*smi),
        "cpu": f"{_first_line('uname', '-m')}, {os.cpu_count()} cores",
        "system": f"{_os()}, kernel {platform.release()}",
        "python": platform.python_version(),
        "compiler": _first_line("c++", "--version"),
        "load at the start": os.getloadavg()[0],
    }
    FILE.write_text(json.dumps(said, indent=1) + "\n")
    print(FILE.read_text())


if __name__ == "__main__":
    main()
