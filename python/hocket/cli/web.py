"""``hocket web``."""

from __future__ import annotations

import asyncio
import errno
import importlib.util
from pathlib import Path

import click

from hocket import _config
from hocket.cli import common
from hocket.errors import HocketError

PORT = 9465
NEEDS = {"h11": "h11", "prometheus_client": "prometheus_client"}  # module: package


@click.command()
@click.option("--port", type=click.IntRange(0, 65535), envvar="HOCKET_WEB_PORT",
              help="Default: the config file's, or 9465. 0: any that is free.")  # fmt: skip
@click.option("--any-user/--only-me", default=None, envvar="HOCKET_WEB_ANY_USER",
              help="Whether other users of this machine may read, too. Only you can write.")  # fmt: skip
def command(port: int | None, any_user: bool | None) -> None:
    """Show this machine's turns in the browser and to Prometheus, on 127.0.0.1, until Ctrl-C.

    http://127.0.0.1:9465/ is the page, /metrics is for Prometheus, /api/... are the same answers as data. It asks the
    coordinator as `hocket status` does, and goes on when that ends or starts anew.
    """
    missing = [package for module, package in NEEDS.items() if importlib.util.find_spec(module) is None]
    if missing:
        raise click.ClickException(
            f"`hocket web` needs {' and '.join(missing)}, not installed in this environment: "
            f"pip install {' '.join(missing)}"
        )
    from hocket.web import server
    from hocket.web.token import Token

    common.control()
    with common.sentences():
        config = {str(key): setting.value for key, setting in _config.settings().items()}
        token = Token(_config.folder() / "web-token")
    port = config.get("web.port", PORT) if port is None else port
    any_user = config.get("web.any_user", False) if any_user is None else any_user
    try:
        token.make()
        asyncio.run(server.serve(port, token, any_user, lambda used: _say(used, token.path)))
    except HocketError as error:
        raise click.ClickException(str(error)) from None
    except OSError as error:
        raise click.ClickException(_why_not(port, error)) from None


def _say(port: int, token: Path) -> None:
    click.echo(f"http://127.0.0.1:{port}/ shows this machine; /metrics is for Prometheus. Ctrl-C ends it.")
    click.echo(f"What changes something (POST /api/pause, ...) needs the token in {token}.")


def _why_not(port: int, error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"port {port} of 127.0.0.1 is taken, by another `hocket web` perhaps. Take another one with --port."
    if error.errno == errno.EACCES:
        return f"port {port} may not be used by you. Take one above 1023 with --port."
    return f"cannot listen on port {port} of 127.0.0.1: {error.strerror or error}."
