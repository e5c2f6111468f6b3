"""NVIDIA's Multi-Process Service, for as long as its standard input is open.

    mps.py FOLDER

It lies in FOLDER (its pipes and its log), so only programs with ``CUDA_MPS_PIPE_DIRECTORY=FOLDER`` go through it; the
card's settings stay as they are. Lines: "serving". Ends with a sentence where it cannot be started.
"""

from __future__ import annotations

import os
import subprocess
import sys

from tests.gpu.programs import said

COMMAND = "nvidia-cuda-mps-control"


def main() -> None:
    folder = sys.argv[1]
    environment = {**os.environ, "CUDA_MPS_PIPE_DIRECTORY": folder, "CUDA_MPS_LOG_DIRECTORY": folder}
    try:
        subprocess.run([COMMAND, "-d"], env=environment, check=True, stdin=subprocess.DEVNULL)
    except (OSError, subprocess.CalledProcessError) as error:
        sys.exit(f"{COMMAND} -d: {error}")
    try:
        said.line("serving")
        sys.stdin.read()
    finally:
        subprocess.run([COMMAND], input="quit -t 5\n", text=True, env=environment, check=False)


if __name__ == "__main__":
    main()
