"""``hocket emulate -- CMD``: a command on an emulated GPU."""

from __future__ import annotations

import os
import re
from pathlib import Path

import click

from hocket.cli.options import COMMAND, PROGRAM, Size
from hocket.cli.program import become

LIBRARIES = Path(__file__).resolve().parents[1] / "lib" / "emulator"
RUNTIME = LIBRARIES / "libhocket_emulator_runtime.so"


def _name(context: click.Context, parameter: click.Parameter, value: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9._-]{1,64}", value):
        raise click.BadParameter(f"{value!r}: 1 to 64 letters, digits, dots, dashes and underscores name a device")
    return value


def variables(name: str, memory: int, devices: int, timing: bool, check: bool) -> dict[str, str]:
    """The environment of a process on the emulated GPU. Nests: an outer emulation is replaced.

    click.ClickException: the path of the libraries cannot be said there.
    """
    if why := why_not_loaded():
        raise click.ClickException(why)
    return {
        "HOCKET_EMULATOR_NAME": name,
        "HOCKET_EMULATOR_MEMORY": str(memory),
        "HOCKET_EMULATOR_DEVICES": str(devices),
        "HOCKET_EMULATOR_MODE": "timing" if timing else "values",
        "HOCKET_EMULATOR_CHECK": "1" if check else "0",
        "LD_PRELOAD": _first(str(RUNTIME), os.environ.get("LD_PRELOAD", "")),
        "LD_LIBRARY_PATH": _first(str(LIBRARIES), os.environ.get("LD_LIBRARY_PATH", "")),
    }


def why_not_loaded() -> str:
    """Why ld.so (ld.so(8), LD_PRELOAD and LD_LIBRARY_PATH) cannot be told where the libraries are; "" where it can."""
    if not re.search(r"[ :;$]", str(LIBRARIES)):
        return ""
    return (
        f"the emulated GPU's libraries lie in {str(LIBRARIES)!r}, and no program can be made to load libraries from a "
        "path with blanks, colons, semicolons or dollar signs. Install Hocket in an environment whose path has none."
    )


def _first(path: str, others: str) -> str:
    """``path`` before the rest of a colon-separated list, once."""
    rest = [other for other in others.split(":") if other and other != path]
    return ":".join([path, *rest])


@click.command(context_settings=PROGRAM)
@click.option("--memory", type=Size(), default="8GiB", show_default=True, help="Memory of each device.")
@click.option("--devices", type=click.IntRange(1, 16), default=1, show_default=True, help="How many devices.")
@click.option("--name", default="default", show_default=True, callback=_name,
              help="All your processes under one name share its devices.")  # fmt: skip
@click.option("--timing", is_flag=True, help="Compute nothing; kernels take modelled time on the device's timeline.")
@click.option("--check", is_flag=True, help="Find uses of memory that no event, stream or wait has ordered.")
@COMMAND
def command(memory: int, devices: int, name: str, timing: bool, check: bool, command: tuple[str, ...]) -> None:
    """Run COMMAND on an emulated GPU: device="cuda" works, computed by the CPU over the same memory.

    It nests: hocket emulate --memory 2GiB -- hocket run -- python train.py
    """
    if not RUNTIME.exists():
        raise click.ClickException(
            f"the emulated GPU's libraries are not installed: there is no {RUNTIME}. "
            "Install Hocket again in this environment: pip install --no-build-isolation ."
        )
    become(command, variables(name, memory, devices, timing, check), "hocket emulate -- python train.py")
