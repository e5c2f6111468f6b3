"""Becoming the user's program: what ``run`` and ``emulate`` end with."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NoReturn

import click


def environment(variables: Mapping[str, str]) -> dict[str, str]:
    """This process's environment with ``variables`` in it, as the program is to have it.

    Without an active virtual environment, commands of Hocket's own environment are found first: ``hocket run -- python
    train.py`` runs the Python that has Hocket.
    """
    made = {**os.environ, **variables}
    if not (made.get("VIRTUAL_ENV") or made.get("CONDA_PREFIX")):
        made["PATH"] = os.path.dirname(sys.executable) + os.pathsep + made.get("PATH", os.defpath)
    return made


def become(command: Sequence[str], variables: Mapping[str, str], usage: str) -> NoReturn:
    """Replaces this process by ``command`` with ``variables`` added to its environment.

    The program has this process's id, so signals and the exit status pass through by themselves.
    """
    if not command:
        raise click.UsageError(f"no command was given. Put one after --, for example: {usage}")
    whole = environment(variables)
    sys.stdout.flush()
    try:
        os.execvpe(command[0], list(command), whole)
    except FileNotFoundError:
        click.echo(f"hocket: there is no command {command[0]!r} (looked in {whole['PATH']}).", err=True)
        sys.exit(127)
    except OSError as error:
        click.echo(f"hocket: cannot run {command[0]!r}: {error.strerror}.", err=True)
        sys.exit(126)


def without_hocket(command: Sequence[str], environment: Mapping[str, str]) -> str:
    """Why ``command`` would train without Hocket: it is a Python of another environment, which has none; else "".

    Files are looked at and nothing is run. Where there is a doubt (a script in Python's place, other commands that
    start one, PYTHONHOME), nothing is said.
    """
    word = command[0] if command else ""
    if not re.fullmatch(r"python[\d.]*t?", os.path.basename(word)) or environment.get("PYTHONHOME"):
        return ""
    found = shutil.which(word, path=environment.get("PATH", os.defpath))
    if found is None:
        return ""
    python = Path(os.path.abspath(found))
    try:
        if python.parent.samefile(os.path.dirname(sys.executable)):
            return ""
        with open(python, "rb") as file:
            if file.read(4) != b"\x7fELF":
                return ""
        prefix, places = _prefix_and_packages(python)
        if prefix.samefile(sys.prefix) or any(map(_has_hocket, [*_named(environment), *places])):
            return ""
    except OSError:
        return ""
    return (
        f"{python} is the Python of another environment ({prefix}), which has no Hocket: the program takes no turns.\n"
        f"  Hocket's own is {sys.executable}. Start the program with that one, or install Hocket in the other."
    )


def _prefix_and_packages(python: Path) -> tuple[Path, list[Path]]:
    """The environment of an interpreter, and the folders in which it finds packages (site.py of Python says so)."""
    for folder in (python.parents[1], python.parent):
        config = folder / "pyvenv.cfg"
        if config.is_file():
            places = [*folder.glob("lib*/python3*/site-packages")]
            says = config.read_text(errors="replace")
            if re.search(r"(?mi)^include-system-site-packages *= *true", says):
                home = re.search(r"(?mi)^home *= *(.+)$", says)  # the interpreter may be a copy of its own
                base = Path(home[1].strip()) / python.name if home else python
                places += _installed(base)[1]
            return folder, places
    return _installed(python)


def _installed(python: Path) -> tuple[Path, list[Path]]:
    """The same of one that is no virtual environment's."""
    prefix = python.resolve().parents[1]
    own = [Path.home() / ".local"] if os.environ.get("HOME") else []
    roots = [prefix, *own, *([Path("/usr/local")] if prefix == Path("/usr") else [])]
    return prefix, [place for root in roots for place in root.glob("lib*/python3*/*-packages")]


def _named(environment: Mapping[str, str]) -> Iterator[Path]:
    return (Path(folder) for folder in environment.get("PYTHONPATH", "").split(os.pathsep) if folder)


def _has_hocket(folder: Path) -> bool:
    """Also where it lies elsewhere, and the folder only says so (pip install --editable)."""
    return (folder / "hocket").is_dir() or any(folder.glob("hocket-*.dist-info"))
