"""What an installation says when something is missing: what it is, and what to install. Nothing is compiled.

``setup.py`` and CMake run as processes, over environments that lack one thing each.
"""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess
import sys
import sysconfig

import pytest

ROOT = pathlib.Path(__file__).parents[2]
SITE = pathlib.Path(sysconfig.get_path("purelib"))
BUILDS = ("setuptools", "_distutils_hack", "pkg_resources")
TORCH = "2.15.0"


class Environment:
    """A Python that has only what is put into it."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = folder
        self.packages = folder / "packages"
        self.tools = folder / "tools"
        self.build = folder / "build"
        for made in (self.packages, self.tools):
            made.mkdir()
        self.have(*BUILDS)
        self.python = self.script("python", f'exec {sys.executable} -S "$@"')

    def have(self, *packages: str) -> None:
        """Links packages of the environment that runs the tests."""
        for name in packages:
            if (SITE / name).exists():
                (self.packages / name).symlink_to(SITE / name)

    def have_torch(self, version: str) -> None:
        torch = self.packages / "torch"
        torch.mkdir()
        (torch / "__init__.py").touch()
        (torch / "version.py").write_text(f"__version__ = {version!r}\n")

    def have_cuda_headers(self) -> pathlib.Path:
        headers = self.packages / "nvidia" / "cu13" / "include"
        headers.mkdir(parents=True)
        (headers / "cuda_runtime_api.h").touch()
        return headers

    def have_crt(self, folder: pathlib.Path) -> None:
        (folder / "crt").mkdir(parents=True)
        (folder / "crt" / "host_defines.h").touch()

    def have_tools(self, *names: str) -> None:
        for name in names:
            found = shutil.which(name)
            assert found, f"this machine has no {name}"
            (self.tools / name).symlink_to(found)

    def script(self, name: str, line: str) -> pathlib.Path:
        path = self.tools / name
        path.write_text(f"#!/bin/sh\n{line}\n")
        path.chmod(0o755)
        return path

    def run(self, *command: object, **variables: str) -> subprocess.CompletedProcess[str]:
        unset = ("CXX", "CC", "LD_PRELOAD")
        environment = {k: v for k, v in os.environ.items() if not k.startswith("HOCKET_") and k not in unset}
        environment |= {"PYTHONPATH": str(self.packages), "HOCKET_BUILD_DIR": str(self.build), **variables}
        return subprocess.run(
            [str(word) for word in command], env=environment, cwd=ROOT, capture_output=True, text=True, timeout=300
        )

    def install(self, **variables: str) -> str:
        """What ``setup.py`` says; it must not succeed."""
        done = self.run(sys.executable, "-S", "setup.py", "build_ext", **variables)
        assert done.returncode == 1, done.stdout + done.stderr
        return _one_line(done.stderr)

    def configure_torch(self, **variables: str) -> str:
        """What cmake/HocketTorch.cmake says of the environment; it must not succeed."""
        done = self.run(
            "cmake", f"-DHOCKET_PYTHON={self.python}", "-P", ROOT / "cmake" / "HocketTorch.cmake", **variables
        )
        assert done.returncode == 1, done.stdout + done.stderr
        return _one_line(done.stderr)

    def configure(self, *options: str, **variables: str) -> str:
        """What CMake says of the whole project without torch; it must not succeed."""
        done = self.run("cmake", "-G", "Ninja", "-S", ROOT, "-B", self.build, *options, **variables)
        assert done.returncode == 1, done.stdout + done.stderr
        return _one_line(done.stderr)


def _one_line(text: str) -> str:
    """CMake wraps its lines."""
    return " ".join(text.split())


@pytest.fixture
def environment(tmp_path: pathlib.Path) -> Environment:
    return Environment(tmp_path)


# --- setup.py ---------------------------------------------------------------------------------------


def test_no_torch(environment: Environment) -> None:
    said = environment.install()
    assert "hocket: Hocket is compiled against the torch of its environment, and there is none." in said
    assert "Install PyTorch (2.11 or newer), then run: pip install --no-build-isolation ." in said


def test_torch_too_old(environment: Environment) -> None:
    environment.have_torch("2.10.1+cu128")
    said = environment.install()
    assert "hocket: torch 2.10.1+cu128 is too old: install PyTorch 2.11 or newer into this environment." in said


def test_no_cmake(environment: Environment) -> None:
    environment.have_torch(TORCH)
    environment.have_tools("g++")
    said = environment.install(PATH=str(environment.tools))
    assert "hocket: there is no cmake: install CMake 3.25 or newer (Debian: apt install cmake)." in said


def test_cmake_too_old(environment: Environment) -> None:
    environment.have_torch(TORCH)
    environment.have_tools("g++")
    old = environment.script("cmake", "echo cmake version 3.22.1")
    said = environment.install(PATH=f"{environment.tools}:{os.environ['PATH']}")
    assert f"hocket: {old} is CMake 3.22.1, which is too old: install CMake 3.25 or newer" in said


def test_no_compiler(environment: Environment) -> None:
    environment.have_torch(TORCH)
    environment.have_tools("cmake")
    said = environment.install(PATH=str(environment.tools))
    assert "hocket: there is no g++: install a C++20 compiler (Debian: apt install g++)." in said
    said = environment.install(PATH=str(environment.tools), CXX="icpx")
    assert "hocket: there is no icpx: install a C++20 compiler" in said


def test_no_pybind11(environment: Environment) -> None:
    environment.have_torch(TORCH)
    said = environment.install()
    assert "hocket: there is no pybind11 in this environment: pip install pybind11" in said


def test_a_compiler_without_cxx20(environment: Environment) -> None:
    environment.have_torch(TORCH)
    environment.have("pybind11")
    old = environment.script("old-g++", 'exec g++ -U__GNUC__ -D__GNUC__=9 "$@"')
    said = environment.install(CXX=str(old))
    assert f"{old} (GNU 9." in said
    assert (
        "is too old: Hocket is written in C++20. Install g++ 12 or clang 14 or newer (Debian: apt install g++)" in said
    )
    assert f"remove {environment.build}" in said, "CMake remembers its compiler there"
    assert "hocket: the build failed; its own words are above. The command was: cmake -S" in said


# --- cmake/HocketThirdParty.cmake -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("library", "packages"),
    [
        ("absl", "libabsl-dev"),
        ("nlohmann_json", "nlohmann-json3-dev"),
        ("spdlog", "libspdlog-dev"),
        ("GTest", "libgtest-dev libgmock-dev"),
    ],
)
def test_a_missing_library_without_a_network_names_its_package(
    environment: Environment, library: str, packages: str
) -> None:
    options = ("-DHOCKET_TESTS=ON", f"-DCMAKE_DISABLE_FIND_PACKAGE_{library}=ON")
    said = environment.configure(*options, GIT_ALLOW_PROTOCOL="none")
    assert f"Hocket needs {library}, which is not installed, and its sources cannot be fetched from https://" in said
    assert "transport 'https' not allowed" in said, "git's own words"
    assert f"Install it (Debian: apt install {packages}), or configure again where that address can be reached." in said


def test_a_missing_library_is_fetched_once_at_its_commit(environment: Environment, tmp_path: pathlib.Path) -> None:
    """With a library and a project of the test's own: its four real ones need a network."""

    def git(*command: str) -> str:
        author = ("-c", "user.name=nobody", "-c", "user.email=nobody@example.org")
        return environment.run("git", "-C", library, *author, *command).stdout.strip()

    library, project = tmp_path / "library", tmp_path / "project"
    for folder in (library, project):
        folder.mkdir()
    git("init", "--quiet")
    for version in ("pinned", "later"):
        (library / "CMakeLists.txt").write_text(f"add_library(tiny INTERFACE)\nset(IS {version} CACHE INTERNAL is)\n")
        git("add", ".")
        git("commit", "--quiet", "--message", version)
    pinned = git("rev-parse", "HEAD~1")
    git("config", "uploadpack.allowAnySHA1InWant", "true")
    (project / "CMakeLists.txt").write_text(f"""
        cmake_minimum_required(VERSION 3.25)
        project(Project LANGUAGES CXX)
        include({ROOT}/cmake/HocketThirdParty.cmake)
        hocket_third_party(tiny libtiny-dev file://{library} {pinned})
        add_library(uses INTERFACE)
        target_link_libraries(uses INTERFACE tiny)
        message(STATUS "the library is ${{IS}}")
    """)
    configure = ("cmake", "-G", "Ninja", "-S", project, "-B", environment.build)
    first = environment.run(*configure)
    assert first.returncode == 0, first.stderr
    assert "Hocket: tiny is not installed; fetching it" in first.stdout
    assert "the library is pinned" in first.stdout
    shutil.rmtree(library)
    again = environment.run(*configure)
    assert again.returncode == 0, again.stderr
    assert "fetching" not in again.stdout


# --- cmake/HocketTorch.cmake ------------------------------------------------------------------------

ADVICE = "Install PyTorch (2.11 or newer, the CUDA build) into the environment of HOCKET_PYTHON."


def test_cmake_without_torch(environment: Environment) -> None:
    said = environment.configure_torch()
    assert f"{environment.python} cannot answer what the build asks. torch is not installed {ADVICE}" in said


def test_cmake_with_a_torch_too_old(environment: Environment) -> None:
    environment.have_torch("2.10.0")
    assert f"torch 2.10.0 is too old for Hocket. {ADVICE}" in environment.configure_torch()


def test_cmake_with_a_torch_without_cuda(environment: Environment) -> None:
    environment.have_torch(TORCH)
    said = environment.configure_torch(CUDA_HOME="/nowhere")
    assert "there are no CUDA headers beside torch in" in said
    assert "Install the CUDA build of PyTorch; its wheels bring nvidia/cu13/include." in said


def test_cmake_with_headers_that_include_what_is_not_there(environment: Environment) -> None:
    environment.have_torch(TORCH)
    headers = environment.have_cuda_headers()
    said = environment.configure_torch(CUDA_HOME="/nowhere")
    assert f"the CUDA headers in {headers} include crt/host_defines.h, which is not there." in said
    assert "Install it: pip install nvidia-cuda-crt." in said


@pytest.mark.parametrize("place", ["nvidia/cu13/include", "triton/backends/nvidia/include"])
def test_cmake_finds_all_of_the_headers(environment: Environment, place: str) -> None:
    environment.have_torch(TORCH)
    environment.have_cuda_headers()
    environment.have_crt(environment.packages / place)
    assert "No module named 'pybind11'" in environment.configure_torch(CUDA_HOME="/nowhere"), "what is looked for next"


def test_the_headers_found_are_enough_where_the_system_has_none(tmp_path: pathlib.Path) -> None:
    """This machine's compiler may find a toolkit's headers by itself: here it may look into no folder of /usr/local."""
    site = str(SITE)
    asks = tmp_path / "asks.cmake"
    asks.write_text(
        f"include({ROOT}/cmake/HocketCudaHeaders.cmake)\n"
        f'hocket_find_cuda_headers(folders complaint "{site}")\n'
        'message("${folders};${complaint}")\n'
    )
    environment = {**os.environ, "CUDA_HOME": "/nowhere"}
    asked = subprocess.run(["cmake", "-P", asks], capture_output=True, text=True, env=environment, check=True)
    folders = [folder for folder in asked.stderr.strip().split(";") if folder]
    compiler = os.environ.get("CXX", "g++")
    verbose = subprocess.run([compiler, "-xc++", "-E", "-v", os.devnull], capture_output=True, text=True, check=True)
    listed = verbose.stderr.split("search starts here:\n")[-1].split("End of search")[0].split()
    folders += [folder for folder in listed if not os.path.realpath(folder).startswith("/usr/local")]
    source = tmp_path / "uses.cc"
    used = ("<cuda.h>", "<cuda_runtime_api.h>", "<c10/cuda/CUDAStream.h>", '"csrc/emulator/runtime/cublas.h"')
    source.write_text("".join(f"#include {header}\n" for header in used))
    torch_headers = f"-isystem{SITE}/torch/include"
    options = ["-std=c++20", "-nostdinc", f"-I{ROOT}", torch_headers, *(f"-isystem{folder}" for folder in folders)]
    compiled = subprocess.run(
        [compiler, *options, "-fsyntax-only", source], capture_output=True, text=True, check=False
    )
    assert compiled.returncode == 0, compiled.stderr[-2000:]


def test_cmake_without_pythons_headers(environment: Environment) -> None:
    environment.have_torch(TORCH)
    environment.have_crt(environment.have_cuda_headers())
    (environment.packages / "sysconfig.py").write_text("def get_paths(): return {'include': '/nowhere'}\n")
    said = environment.configure_torch()
    assert "there is no /nowhere/Python.h Install Python's headers (Debian: apt install python3-dev)." in said


def test_cmake_without_pybind11(environment: Environment) -> None:
    environment.have_torch(TORCH)
    environment.have_crt(environment.have_cuda_headers())
    said = environment.configure_torch()
    assert "No module named 'pybind11'" in said
    assert "Install pybind11 into the environment of HOCKET_PYTHON: pip install pybind11." in said
