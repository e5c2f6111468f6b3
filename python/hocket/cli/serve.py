"""``hocket serve``."""

from __future__ import annotations

import os
from pathlib import Path

import click

from hocket.cli import common

DAEMON = Path(__file__).resolve().parents[1] / "bin" / "hocketd"


def daemon() -> Path:
    """The coordinator's program: $HOCKET_DAEMON, or the one installed with this package."""
    return Path(os.environ.get("HOCKET_DAEMON") or DAEMON)


@click.command(context_settings={"ignore_unknown_options": True})
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def command(arguments: tuple[str, ...]) -> None:
    """Run the coordinator in the foreground until Ctrl-C. ARGUMENTS are hocketd's own (hocketd --help)."""
    program = daemon()
    if not os.access(program, os.X_OK):
        raise click.ClickException(
            f"there is no coordinator to run at {program}. Install Hocket again, or name one in HOCKET_DAEMON."
        )
    common.configure()
    os.execv(program, [str(program), "--foreground", *arguments])
