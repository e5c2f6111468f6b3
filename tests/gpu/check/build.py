"""Builds Hocket from the offline bundle, into build/gpu-check; nothing is fetched and nothing is installed.

build/gpu-check/bundle   the bundle, unpacked
build/gpu-check/build    CMake's folder: the package, the driver contract suite, the C++ benchmarks
build/gpu-check/site     the package as pip lays it out; goes onto PYTHONPATH
"""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess
import sys

from tests.bench import source

ROOT = pathlib.Path(__file__).resolve().parents[3]
WORK = ROOT / "build" / "gpu-check"
BUNDLE, BUILD, SITE = WORK / "bundle", WORK / "build", WORK / "site"
HISTORIES = WORK / "histories"  # of allocations, as they were recorded here: a benchmark replays them
PACKED = ROOT / ".cache" / "offline-bundle" / "bundle.tar.gz"
TARGETS = (
    "hocket_package",
    "driver_contract_test",
    "hocket_bench_spill",
    "client_hand_over_bench",
    "client_boundary_bench",
    "hocket_allocator_versus_native",
)


def unpack() -> None:
    """Unpacks the bundle anew. FileNotFoundError says how to make one."""
    if not PACKED.exists():
        raise FileNotFoundError(f"there is no {PACKED}: on Debian 12, run scripts/setup and scripts/offline-bundle")
    shutil.rmtree(BUNDLE, ignore_errors=True)
    BUNDLE.mkdir(parents=True)
    # tarfile's extractall() takes a filter, without which newer Pythons warn, from 3.11.4 on only.
    subprocess.run(["tar", "-xzf", str(PACKED), "-C", str(BUNDLE)], check=True)


def libraries() -> str:
    """The folder of the bundle's shared libraries."""
    return str(next((BUNDLE / "usr" / "lib").glob("*-linux-gnu")))


def environment() -> dict[str, str]:
    """What programs need that use the build."""
    ours = ("HOCKET_PYTHON", "HOCKET_EMULATOR_MEMORY", "HOCKET_HOST_BUDGET")
    keep = {k: v for k, v in os.environ.items() if not k.startswith("HOCKET_") or k in ours}
    paths = {"PYTHONPATH": [str(SITE), str(ROOT)], "PATH": [str(SITE / "bin")], "LD_LIBRARY_PATH": [libraries()]}
    for name, first in paths.items():
        keep[name] = os.pathsep.join([*first, *([keep[name]] if keep.get(name) else [])])
    # No place but the bundle's may be looked at.
    keep |= {"CMAKE_PREFIX_PATH": "", "PIP_NO_INDEX": "1", "PYTHONUNBUFFERED": "1", "HOCKET_BUILD_DIR": str(BUILD)}
    if any(HISTORIES.glob("*.txt.gz")):
        keep["HOCKET_HISTORIES"] = str(HISTORIES)
    return keep


def _configure(emulator: bool) -> list[str]:
    found = {file.name: file.parent for file in BUNDLE.rglob("*onfig.cmake")}
    places = {"absl": "abslConfig", "spdlog": "spdlogConfig", "fmt": "fmt-config", "GTest": "GTestConfig",
              "nlohmann_json": "nlohmann_jsonConfig"}  # fmt: skip
    return [
        "cmake", "-S", str(ROOT), "-B", str(BUILD), *(["-GNinja"] if shutil.which("ninja") else []),
        "-DCMAKE_BUILD_TYPE=Release", "-DHOCKET_TESTS=ON", "-DHOCKET_BENCHMARKS=ON",
        f"-DHOCKET_EMULATOR={'ON' if emulator else 'OFF'}", f"-DHOCKET_PYTHON={sys.executable}",
        "-DFETCHCONTENT_FULLY_DISCONNECTED=ON", "-DCMAKE_POLICY_VERSION_MINIMUM=3.5",
        # Newer compilers no longer bring it in by the way, which Debian 12's Abseil relies on.
        "-DCMAKE_CXX_FLAGS=-include cstdint",
        *[f"-D{name}_DIR={found[file + '.cmake']}" for name, file in places.items()],
    ]  # fmt: skip


def main(emulator: bool) -> None:
    """Builds what is not built yet; subprocess.CalledProcessError after the failing command's own words."""
    made = SITE / "hocket-check-made-of"
    stamp = f"{source.fingerprint()} {sys.executable} {emulator}"
    if made.exists() and made.read_text() == stamp:
        print("built before, from the same sources")
        return
    jobs = str(len(os.sched_getaffinity(0)))
    pip = [sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--no-build-isolation",
           "--no-deps", "--no-compile", "--target", str(SITE), "."]  # fmt: skip
    shutil.rmtree(SITE, ignore_errors=True)
    for command in (
        _configure(emulator),
        ["cmake", "--build", str(BUILD), "--parallel", jobs, "--target", *TARGETS],
        pip,
    ):
        print("+", " ".join(command))
        subprocess.run(command, check=True, cwd=ROOT, env=environment())
    made.write_text(stamp)


if __name__ == "__main__":
    main(emulator="--emulate" in sys.argv)
