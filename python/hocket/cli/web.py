"""``hocket web``."""

from __future__ import annotations

import asyncio
import errno
import importlib.util
import os
from pathlib import Path

import click

from hocket.errors import HocketError

PORT = 9465
NEEDS = {"h11": "h11", "prometheus_client": "prometheus_client"}  # module: package


def config_folder() -> Path:
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "hocket"


@click.command()
@click.option("--port", type=click.IntRange(0, 65535), default=PORT, show_default=True, help="0: any that is free.")
@click.option("--any-user", is_flag=True, help="Let other users of this machine read, too. Only you can write.")
def command(port: int, any_user: bool) -> None:
    """Show this machine's turns in the browser and to Prometheus, on 127.0.0.1, until Ctrl-C.

    http://localhost:9465/ is the page, /metrics is for Prometheus, /api/... are the same answers as data. It asks the
    coordinator as `hocket status` does, and goes on when that ends or starts anew.
    """
    missing = [package for module, package in NEEDS.items() if importlib.util.find_spec(module) is None]
    if missing:
        raise click.ClickException(
            f"`hocket web` needs {' and '.join(missing)}, not installed in this environment: "
            f"pip install {' '.join(missing)}"
        )
    from hocket.cli.common import control
    from hocket.web import server
    from hocket.web.token import Token

    control()
    token = Token(config_folder() / "web-token")
    try:
        token.make()
        asyncio.run(server.serve(port, token, any_user, lambda used: _say(used, token.path)))
    except HocketError as error:
        raise click.ClickException(str(error)) from None
    except OSError as error:
        raise click.ClickException(_why_not(port, error)) from None


def _say(port: int, token: Path) -> None:
    click.echo(f"http://localhost:{port}/ shows this machine; /metrics is for Prometheus. Ctrl-C ends it.")
    click.echo(f"What changes something (POST /api/pause, ...) needs the token in {token}.")


def _why_not(port: int, error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"port {port} of 127.0.0.1 is taken, by another `hocket web` perhaps. Take another one with --port."
    if error.errno == errno.EACCES:
        return f"port {port} may not be used by you. Take one above 1023 with --port."
    return f"cannot listen on port {port} of 127.0.0.1: {error.strerror or error}."
