"""Can this device do it? ``can.py WHAT``: exit status 0, or a sentence on standard error and 1.

graphs     capture work in a CUDA graph and get the right values from a replay
compile    torch.compile compiles, and what it compiled gives the right values
mps        NVIDIA's Multi-Process Service can be started, and a program computes through it
mig        there are MIG instances (none is made: the card's settings stay as they are)
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile

import torch


def graphs() -> None:
    x = torch.ones(8, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = x + 1
    x.fill_(5)
    graph.replay()
    assert y.tolist() == [6.0] * 8, f"the replay gave {y.tolist()}"


def compile() -> None:
    assert torch.compile(lambda x: torch.sin(x) + 1)(torch.zeros(8, device="cuda")).tolist() == [1.0] * 8


def mps() -> None:
    with tempfile.TemporaryDirectory(prefix="mps-") as folder:
        command = [sys.executable, "-m", "tests.gpu.programs.mps", folder]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        with subprocess.Popen(command, text=True, **pipes) as service:
            try:
                assert service.stdout.readline() == "serving\n", service.stderr.read()
                os.environ["CUDA_MPS_PIPE_DIRECTORY"] = folder
                assert torch.ones(8, device="cuda").sum().item() == 8
            finally:
                service.stdin.close()


def mig() -> None:
    listed = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, check=True).stdout
    assert "MIG-" in listed, "there are no MIG instances"


try:
    {"graphs": graphs, "compile": compile, "mps": mps, "mig": mig}[sys.argv[1]]()
except Exception as error:
    sys.exit(str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__)
