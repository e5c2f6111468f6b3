"""Who may ask what. Every request passes here before it is answered.

    any request   from a process of this user or of root (unless other users may read, too)
                  Host is a name of this machine's own loopback: a page whose name was made to point here has another
                  Origin, where a browser says it, is this server itself: no other site's script may ask
    to read       GET
    to write      POST, as JSON, with the user's token

The token is a line in a file that only its user can read; nobody else can hence pause a job, and no web page can.
"""

from __future__ import annotations

import hmac
import os
import re

from hocket.web.door import Refused, Request, sentence
from hocket.web.token import Token

HOST = re.compile(r"(localhost|127\.0\.0\.1|\[::1\])(:[0-9]{1,5})?", re.IGNORECASE)


def check_asker(request: Request, any_user: bool) -> None:
    """Refused: another user's process, another host's name, another site's page."""
    if not any_user and request.user not in (os.geteuid(), 0):
        raise Refused(
            sentence(
                403,
                f"this page belongs to uid {os.geteuid()}, and the process that asks to uid {request.user}. "
                "Its user lets others read with: hocket web --any-user",
            )
        )
    host = request.headers.get("host", "")
    if not HOST.fullmatch(host):
        raise Refused(
            sentence(403, f"asked for the host {host[:100]!r}: ask for localhost or 127.0.0.1, by that name.")
        )
    origin = request.headers.get("origin")
    if origin is not None and origin.lower() != f"http://{host}".lower():
        raise Refused(sentence(403, f"a page of {origin[:100]!r} may not ask here."))
    # A browser says no Origin where the page cannot read the answer; but each question costs the coordinator time.
    if request.path != "/" and request.headers.get("sec-fetch-site", "none").lower() not in ("none", "same-origin"):
        raise Refused(sentence(403, "a page of another site may not ask here."))


def check_method(request: Request, allowed: str) -> None:
    """Refused: any other method."""
    if request.method != allowed:
        raise Refused(sentence(405, f"{request.path[:100]} is asked with {allowed}.", Allow=allowed))


def check_writer(request: Request, token: Token) -> None:
    """Refused: without the user's token, or not as JSON (which no form of another site can send)."""
    scheme, _, given = request.headers.get("authorization", "").partition(" ")
    wanted = token.read()
    if (
        not wanted
        or scheme.lower() != "bearer"
        or not hmac.compare_digest(given.strip().encode("latin-1"), wanted.encode())
    ):
        raise Refused(
            sentence(
                401,
                f"this changes something: send the line in {token.path} as 'Authorization: Bearer ...'.",
                **{"WWW-Authenticate": "Bearer"},
            )
        )
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise Refused(sentence(415, "send what is to be changed as application/json."))
