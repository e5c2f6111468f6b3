"""From the port to its end: makes the parts, listens, and serves until it is told to stop."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable

from hocket.web.door import Door
from hocket.web.node import Node
from hocket.web.routes import Routes
from hocket.web.token import Token


async def serve(port: int, token: Token, any_user: bool, listening: Callable[[int], None]) -> None:
    """Serves on 127.0.0.1 until SIGINT or SIGTERM. ``listening`` is told the port (0 was: any) once it serves.

    OSError: the port is taken, or may not be used.
    """
    door = Door(Routes(Node(), token, any_user).answer, any_user=any_user)
    server = await door.listen(port)
    ended = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, ended.set)
    listening(server.sockets[0].getsockname()[1])
    await ended.wait()
    server.close()
