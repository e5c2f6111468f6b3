"""Builds Hocket with CMake against the torch of the running interpreter.

    pip install --no-build-isolation .

The build folder is HOCKET_BUILD_DIR, else build/pip-<torch version>: each torch has its own, and a second run
compiles only what changed. Whatever is missing is said in one sentence, with what to install.
"""

import importlib.util
import os
import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

ROOT = Path(__file__).resolve().parent
OLDEST_TORCH = (2, 11)
OLDEST_CMAKE = (3, 25)


def fail(sentence):
    sys.exit(f"hocket: {sentence}")


def torch_version():
    """As torch.__version__, without importing it: that takes seconds."""
    spec = importlib.util.find_spec("torch")
    if spec is None:
        fail("Hocket is compiled against the torch of its environment, and there is none. Install PyTorch "
             "(2.11 or newer), then run: pip install --no-build-isolation .")  # fmt: skip
    version = runpy.run_path(str(Path(spec.origin).with_name("version.py")))["__version__"]
    if tuple(int(part) for part in version.split(".")[:2]) < OLDEST_TORCH:
        fail(f"torch {version} is too old: install PyTorch 2.11 or newer into this environment.")
    return version


def check_tools():
    needed = {
        "cmake": "CMake 3.25 or newer (Debian: apt install cmake)",
        os.environ.get("CXX", "g++"): "a C++20 compiler (Debian: apt install g++)",
    }
    for tool, what in needed.items():
        if shutil.which(tool) is None:
            fail(f"there is no {tool}: install {what}.")
    said = subprocess.run(["cmake", "--version"], capture_output=True, text=True, check=False).stdout
    version = re.search(r"cmake version ((\d+)\.(\d+)\S*)", said)
    if version and (int(version[2]), int(version[3])) < OLDEST_CMAKE:
        fail(f"{shutil.which('cmake')} is CMake {version[1]}, which is too old: install CMake 3.25 or newer "
             "(pip install cmake, where the system has none).")  # fmt: skip
    if importlib.util.find_spec("pybind11") is None:
        fail("there is no pybind11 in this environment: pip install pybind11")


class BuildWithCMake(build_ext):
    """Configures, builds and installs the component "package" of the CMake project into the package's folder."""

    def run(self):
        check_tools()
        package = Path(self.get_ext_fullpath("hocket._native")).resolve().parent
        self.configure()
        jobs = os.environ.get("HOCKET_BUILD_JOBS") or str(os.cpu_count())
        self.call("cmake", "--build", FOLDER, "--target", "hocket_package", "--parallel", jobs)
        self.call("cmake", "--install", FOLDER, "--component", "package", "--prefix", package, "--strip")

    def configure(self):
        command = ["cmake", "-S", ROOT, "-B", FOLDER, f"-DHOCKET_PYTHON={sys.executable}"]
        if not (FOLDER / "CMakeCache.txt").exists():
            generator = ["-GNinja"] if shutil.which("ninja") else []
            command += [*generator, "-DCMAKE_BUILD_TYPE=Release", "-DHOCKET_TESTS=OFF"]
        self.call(*command)

    def call(self, *command):
        command = [str(part) for part in command]
        try:
            subprocess.run(command, check=True, cwd=ROOT)
        except subprocess.CalledProcessError:
            fail(f"the build failed; its own words are above. The command was: {' '.join(command)}")


VERSION = torch_version()
FOLDER = Path(os.environ.get("HOCKET_BUILD_DIR") or ROOT / "build" / f"pip-{VERSION}").resolve()
GATHERED = FOLDER / "python"  # not setuptools' own build/: two environments may be installed into at once
# An earlier run may have gathered modules that are no longer in the sources.
for gathered in GATHERED.glob("lib.*"):
    shutil.rmtree(gathered, ignore_errors=True)

setup(
    ext_modules=[Extension("hocket._native", sources=[])],
    cmdclass={"build_ext": BuildWithCMake},
    options={"build": {"build_base": str(GATHERED)}},
)
