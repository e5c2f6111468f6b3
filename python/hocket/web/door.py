"""Where requests come in: a listener on 127.0.0.1 that nobody can fill, block or bring down.

A connection carries one request and its answer. Whoever is too slow in saying the one or in taking the other, says too
much, or says what is no HTTP, gets a sentence (if it listens) and is closed. All connections live in one thread: a slow
one costs a descriptor and some kilobytes, for ``Limits.seconds`` twice at most.

Whose a connection is is asked before anything is read of it: root and this user have places that no other user can
take. One for which there is no place is told so and closed at once, or just closed where its user may not ask anything.

h11 reads and writes HTTP; this module only moves bytes and counts.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import dataclasses
import os
import socket
import struct
import sys
import traceback
import urllib.parse
from collections.abc import Awaitable, Callable, Mapping

import h11

from hocket.web import peer

# Sent with everything: no other site may frame it, read it, or be told where the user came from.
ALWAYS = {
    "Cache-Control": "no-store",
    "Connection": "close",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
CHUNK = 4096  # bytes read at once


@dataclasses.dataclass(frozen=True)
class Limits:
    """What one connection, those of one user, and those of all others together may take."""

    connections: int = 64  # of one user
    others: int = 256  # of all users but root and this one, where these may read
    strangers: int = 8  # of the same, where they may not: as many are told so
    head: int = 8192  # bytes of request line and headers
    body: int = 4096  # bytes
    seconds: float = 10.0  # to say a request; and again to take its answer


@dataclasses.dataclass(frozen=True)
class Request:
    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]  # by lower-case name; of several with one name the values, with ", " between
    body: bytes = b""
    user: int | None = None  # uid of the process that asks; None: could not be found


@dataclasses.dataclass(frozen=True)
class Response:
    status: int
    body: bytes
    kind: str = "text/plain; charset=utf-8"
    headers: Mapping[str, str] = dataclasses.field(default_factory=dict)


def sentence(status: int, text: str, **headers: str) -> Response:
    """An answer for people: what was refused, and what to do."""
    return Response(status, f"{text}\n".encode(), headers=headers)


class Refused(Exception):
    """A request that is answered by a refusal."""

    def __init__(self, response: Response) -> None:
        super().__init__(response.body.decode())
        self.response = response


class Door:
    """Serves ``answer`` until it is closed. One event loop, one thread. ``any_user``: other users may read, too."""

    def __init__(
        self,
        answer: Callable[[Request], Awaitable[Response]],
        limits: Limits | None = None,
        any_user: bool = False,
    ) -> None:
        self._answer = answer
        self._limits = limits or Limits()
        self._any_user = any_user
        self._open: collections.Counter[int | None] = collections.Counter()  # connections, by uid
        self._serving: set[asyncio.Task[None]] = set()

    async def listen(self, port: int) -> asyncio.Server:
        """Listens on 127.0.0.1. OSError: the port is taken, or may not be used."""
        return await asyncio.start_server(self._welcome, "127.0.0.1", port, limit=CHUNK, backlog=128)

    def _welcome(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # A task of ours: of a coroutine's, cancelled when the loop ends, asyncio would print a traceback each.
        task = asyncio.get_running_loop().create_task(self._serve(reader, writer))
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.transport.set_write_buffer_limits(high=0)  # so drain() ends when all has gone to the kernel
        user = _user(writer)
        connection = h11.Connection(h11.SERVER, max_incomplete_event_size=self._limits.head)
        if not self._has_room(user):
            await self._turn_away(connection, writer, user)
            return
        self._open[user] += 1
        try:
            response = await self._respond(connection, reader, user)
            async with asyncio.timeout(self._limits.seconds):
                await _send(connection, writer, response)
                await _see_off(reader, writer)
            writer.close()
        except (OSError, TimeoutError, h11.ProtocolError):
            _cut(writer)  # it has gone away, or takes nothing: there is nobody to tell
        except asyncio.CancelledError:  # the server ends
            _cut(writer)
            raise
        finally:
            self._open[user] -= 1
            if not self._open[user]:
                del self._open[user]

    def _has_room(self, user: int | None) -> bool:
        if self._open[user] >= self._limits.connections:
            return False
        if not _is_other(user):
            return True
        others = sum(count for uid, count in self._open.items() if _is_other(uid))
        return others < (self._limits.others if self._any_user else self._limits.strangers)

    async def _turn_away(self, connection: h11.Connection, writer: asyncio.StreamWriter, user: int | None) -> None:
        """At once: it is neither listened to nor waited for."""
        if _is_other(user) and not self._any_user:
            _cut(writer)
            return
        try:
            async with asyncio.timeout(self._limits.seconds):
                text = f"{self._open[user]} connections of uid {user} are open, and there is no place for one more."
                await _send(connection, writer, sentence(503, f"{text} Try again."))
            writer.close()
        except (OSError, TimeoutError):
            _cut(writer)

    async def _respond(self, connection: h11.Connection, reader: asyncio.StreamReader, user: int | None) -> Response:
        try:
            async with asyncio.timeout(self._limits.seconds):
                request = await self._read(connection, reader)
            return await self._answer(dataclasses.replace(request, user=user))
        except Refused as refused:
            return refused.response
        except TimeoutError:
            return sentence(408, f"no whole request came in {self._limits.seconds:g} s.")
        except h11.RemoteProtocolError as error:
            return sentence(error.error_status_hint, f"this is no request that is understood here: {error}.")
        except OSError:
            raise
        except Exception:  # a mistake of ours costs one answer
            traceback.print_exc(file=sys.stderr)
            return sentence(500, "hocket web made a mistake; its stderr says which.")

    async def _read(self, connection: h11.Connection, reader: asyncio.StreamReader) -> Request:
        head: h11.Request | None = None
        body = b""
        while True:
            event = connection.next_event()
            if event is h11.NEED_DATA:
                connection.receive_data(await reader.read(CHUNK))
            elif isinstance(event, h11.Request):
                head = event
            elif isinstance(event, h11.Data):
                body += event.data
                if len(body) > self._limits.body:
                    raise Refused(sentence(413, f"a request has at most {self._limits.body} bytes after its head."))
            elif isinstance(event, h11.EndOfMessage) and head is not None:
                return _request(head, body)
            else:  # ConnectionClosed
                raise ConnectionAbortedError


def _user(writer: asyncio.StreamWriter) -> int | None:
    """uid of the process at the other end; None: it is not known, or has gone away already."""
    there, here = writer.get_extra_info("peername"), writer.get_extra_info("sockname")
    return peer.user(there, here) if there and here else None


def _is_other(user: int | None) -> bool:
    """Neither root nor who runs this."""
    return user not in (0, os.geteuid())


def _request(head: h11.Request, body: bytes) -> Request:
    if head.http_version not in (b"1.0", b"1.1"):
        raise Refused(sentence(505, "HTTP/1.1 is spoken here."))
    target = head.target.decode("ascii")
    if not target.startswith("/"):
        raise Refused(sentence(400, f"{target[:100]!r} is no path of this server."))
    split = urllib.parse.urlsplit("//local" + target)
    try:
        query = dict(urllib.parse.parse_qsl(split.query, max_num_fields=8, strict_parsing=bool(split.query)))
    except ValueError as error:
        raise Refused(sentence(400, f"the query {split.query[:100]!r} is not understood: {error}.")) from None
    headers: dict[str, str] = {}
    for name, value in head.headers:
        key, text = name.decode("ascii"), value.decode("latin-1")
        headers[key] = f"{headers[key]}, {text}" if key in headers else text
    return Request(head.method.decode("ascii"), urllib.parse.unquote(split.path), query, headers, body)


async def _send(connection: h11.Connection, writer: asyncio.StreamWriter, response: Response) -> None:
    headers = {"Content-Type": response.kind, "Content-Length": str(len(response.body))} | ALWAYS | response.headers
    writer.write(connection.send(h11.Response(status_code=response.status, headers=list(headers.items()))) or b"")
    with contextlib.suppress(h11.LocalProtocolError):  # the answer to HEAD has no body
        writer.write(connection.send(h11.Data(data=response.body)) or b"")
    await writer.drain()


def _cut(writer: asyncio.StreamWriter) -> None:
    """Ends a connection at once; the kernel keeps no bytes for it either."""
    with contextlib.suppress(OSError):
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


async def _see_off(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Until it hangs up: what it still sends is read, because unread bytes would take the answer away from it."""
    writer.write_eof()
    while await reader.read(CHUNK):
        pass
