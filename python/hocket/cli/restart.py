"""``hocket restart``: this installation's coordinator takes the place of the one that runs."""

from __future__ import annotations

import contextlib
import fcntl
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import click

from hocket import _coordinator
from hocket.cli import common, serve

PATIENCE = 10  # seconds for a new one to listen


@click.command()
def command() -> None:
    """Replace the coordinator by the one of this installation, while jobs run.

    For after an upgrade. Jobs go on: the one that has the turn keeps it, the others wait, and all of them tell the new
    coordinator where they stand. Settings and quotas are kept. One that systemd keeps is restarted by systemctl.
    """
    program = serve.daemon()
    version = _version_of(program)  # before anything is ended
    common.configure()
    with common.sentences(), _nobody_else_starts_one():
        old = common.ask_if_it_runs("version")
        if old:
            _coordinator.end(force=True, restart=True)
        _start(program, for_all=bool(old and old.get("system")))
        new = common.ask("version")
    took = f", in the place of {old['version']} (pid {old['pid']})" if old else "; none ran before"
    click.echo(f"the coordinator {version} (pid {new['pid']}) serves{took}.")


def _version_of(program: Path) -> str:
    """What it calls itself; exit status 1, with nothing done, where it does not run."""
    try:
        said = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=PATIENCE, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        raise click.ClickException(
            f"cannot run {program}: {error}. Nothing was changed. "
            "Install Hocket again, or name another in HOCKET_DAEMON."
        ) from None
    return said.stdout.split()[-1]


@contextlib.contextmanager
def _nobody_else_starts_one() -> Iterator[None]:
    """A job that misses its coordinator starts one, of its own installation, with this lock held."""
    folder = Path(common.socket_path()).parent
    folder.mkdir(mode=0o700, exist_ok=True)
    with open(os.open(folder / "start.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600), "rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _start(program: Path, for_all: bool) -> None:
    """``for_all``: one that serves all users, as the old one did."""
    command = [program, *(["--system"] if for_all else [])]
    started = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PATIENCE)
    if started.returncode != 0:
        raise click.ClickException(
            f"{started.stderr.strip() or f'{program} ended with status {started.returncode}'}. "
            "The old coordinator has ended; jobs go on, and the first that misses one starts it."
        )
