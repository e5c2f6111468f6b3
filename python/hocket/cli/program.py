"""Becoming the user's program: what ``run`` and ``emulate`` end with."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from typing import NoReturn

import click


def become(command: Sequence[str], variables: Mapping[str, str], usage: str) -> NoReturn:
    """Replaces this process by ``command`` with ``variables`` added to its environment.

    The program has this process's id, so signals and the exit status pass through by themselves. Without an active
    virtual environment, commands of Hocket's own environment are found first: ``hocket run -- python train.py`` runs
    the Python that has Hocket.
    """
    if not command:
        raise click.UsageError(f"no command was given. Put one after --, for example: {usage}")
    environment = {**os.environ, **variables}
    if not (environment.get("VIRTUAL_ENV") or environment.get("CONDA_PREFIX")):
        environment["PATH"] = os.path.dirname(sys.executable) + os.pathsep + environment.get("PATH", os.defpath)
    sys.stdout.flush()
    try:
        os.execvpe(command[0], list(command), environment)
    except FileNotFoundError:
        click.echo(f"hocket: there is no command {command[0]!r} (looked in {environment['PATH']}).", err=True)
        sys.exit(127)
    except OSError as error:
        click.echo(f"hocket: cannot run {command[0]!r}: {error.strerror}.", err=True)
        sys.exit(126)
