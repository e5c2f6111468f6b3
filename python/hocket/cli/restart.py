"""``hocket restart``: this installation's coordinator takes the place of the one that runs."""

from __future__ import annotations

import contextlib
import fcntl
import os
import subprocess
import time
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
        why = str(error)
    else:
        if words := said.stdout.split():
            return words[-1]
        why = "it does not say its version"
    raise click.ClickException(
        f"cannot run {program}: {why}. Nothing was changed. Install Hocket again, or name another in HOCKET_DAEMON."
    )


@contextlib.contextmanager
def _nobody_else_starts_one() -> Iterator[None]:
    """A job that misses its coordinator starts one, of its own installation, with this lock held."""
    path = Path(common.control().ensure_runtime_dir()) / "start.lock"
    try:
        lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        denied = isinstance(error, PermissionError)
        advice = "The owner of its folder may restart it." if denied else "Remove it if it is no file of yours."
        raise click.ClickException(
            f"cannot open {path}, which keeps others from starting a coordinator meanwhile: {error.strerror}. "
            f"Nothing was changed. {advice}"
        ) from None
    try:
        _take(lock, path)
        yield
    finally:
        os.close(lock)


def _take(lock: int, path: Path) -> None:
    """Waits for who starts one, but not for ever: it may be stopped."""
    until = time.monotonic() + PATIENCE
    while True:
        with contextlib.suppress(BlockingIOError):
            return fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if time.monotonic() >= until:
            raise click.ClickException(
                f"another process has held {path} for {PATIENCE} s: it starts a coordinator, and is stopped perhaps. "
                f"Nothing was changed. `fuser {path}` names it: let it go on, or end it."
            )
        time.sleep(0.02)


def _start(program: Path, for_all: bool) -> None:
    """``for_all``: one that serves all users, as the old one did."""
    command = [program, *(["--system"] if for_all else [])]
    try:
        started = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        why = f"{program} has not begun to listen in {PATIENCE} s, and was ended"
    else:
        if started.returncode == 0:
            return
        why = started.stderr.strip() or f"{program} ended with status {started.returncode}"
    raise click.ClickException(f"{why}. No coordinator runs now; jobs go on, and the first that misses one starts it.")
