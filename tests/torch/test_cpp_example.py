"""A C++ program over find_package(Hocket): it builds, trains, and trains the same beside a Python job."""

from __future__ import annotations

import pathlib
import shutil
import subprocess
import sys

import pytest
from world import World

ROOT = pathlib.Path(__file__).parents[2]
BUILD = ROOT / "build" / f"example-cpp-{'.'.join(map(str, sys.version_info[:2]))}"


@pytest.fixture(scope="module")
def train() -> str:
    code = "import hocket, torch; print(hocket.cmake_prefix()); print(torch.__version__)"
    said = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split()
    prefix, version = said[-2:]
    folder = f"{BUILD}-{version}"
    generator = ["-GNinja"] if shutil.which("ninja") else []
    configure = ["cmake", "-S", str(ROOT / "examples/cpp"), "-B", folder, f"-DCMAKE_PREFIX_PATH={prefix}", *generator]
    for command in (configure, ["cmake", "--build", folder]):
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
    return f"{folder}/train"


def losses(lines: list[str]) -> list[str]:
    return [line for line in lines if line.startswith("step ")]


def test_cpp_trains_the_same_beside_a_python_job(world: World, train: str) -> None:
    alone = world.start(train, "100").finishes()
    assert len(losses(alone.lines)) == 2
    beside = world.job("train", "--name", "beside", "--steps", 60, "--hold", "2")
    beside.expect("step 2")
    shared = world.start(train, "100")
    world.until("sine", "waits")
    beside.go_on()
    shared.finishes()
    beside.finishes()
    assert losses(shared.lines) == losses(alone.lines)
    assert ": 100 steps in" in shared.lines[-1]


def test_cpp_trains_on_the_cpu(world: World, train: str) -> None:
    program = world.start(train, "50", emulated=False).finishes()
    assert "on CPU: 50 steps" in program.lines[-1]
