"""Which request gets which answer. docs/user-guide.md, "In the browser and for Prometheus", is the list for users.

A new thing to read: a method here and its path in ``_reads``. A new thing to change: a row in ``WRITES``.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from hocket.web import metrics, rules
from hocket.web.door import Refused, Request, Response, sentence
from hocket.web.node import FAILURES, Node
from hocket.web.token import Token

PAGE = Path(__file__).with_name("page.html")
MOST_TURNS = 2000  # in one answer

# What may be changed: the coordinator's command -> the arguments it takes (csrc/wire/PROTOCOL.md, Commands).
WRITES = {
    "pause": {"job": str},
    "resume": {"job": str},
    "set": {"job": str, "weight": (int, float), "priority": str, "total_steps": int},
    "policy": {"name": str},
}


def _json(answer: Any, status: int = 200) -> Response:
    return Response(status, json.dumps(answer).encode() + b"\n", "application/json")


class Routes:
    def __init__(self, node: Node, token: Token, any_user: bool = False) -> None:
        self._node = node
        self._token = token
        self._any_user = any_user
        page = PAGE.read_bytes()
        self._page = Response(200, page, "text/html; charset=utf-8", {"Content-Security-Policy": _policy(page)})
        self._reads: dict[str, Callable[[Request], Awaitable[Response]]] = {
            "/": self._show_page,
            "/metrics": self._metrics,
            "/api/status": self._status,
            "/api/node": self._look,
            "/api/turns": self._turns,
            "/api/explain": self._explain,
            "/api/policy": self._policies,
        }

    async def answer(self, request: Request) -> Response:
        """Refused: see rules.py; 404 for a path that is none, 503 where the coordinator does not answer."""
        rules.check_asker(request, self._any_user)
        command = request.path.removeprefix("/api/")
        if request.path.startswith("/api/") and command in WRITES and request.method == "POST":
            return await self._write(command, request)
        if request.path not in self._reads:
            if request.path.startswith("/api/") and command in WRITES:
                rules.check_method(request, "POST")
            known = ", ".join([*self._reads, *(f"/api/{name}" for name in WRITES)])
            raise Refused(sentence(404, f"there is no {request.path[:100]!r} here. There are: {known}."))
        rules.check_method(request, "GET")
        return await self._reads[request.path](request)

    async def _show_page(self, _: Request) -> Response:
        return self._page

    async def _metrics(self, request: Request) -> Response:
        look = await self._node.look()
        body, kind = metrics.text(look, self._node.counts, request.headers.get("accept", ""))
        return Response(200, body, kind)

    async def _look(self, request: Request) -> Response:
        """What the page shows: the coordinator's status, or why there is none, and the turns since ``since``."""
        since = _number(request, "since")
        look = await self._node.look()
        turns = self._node.turns_since(since, MOST_TURNS)
        answer = {"up": look.up, "why": look.why, "now_ns": look.now_ns, "status": look.status}
        return _json({**answer, "turns": turns, "next": self._node.next_seq})

    async def _status(self, _: Request) -> Response:
        look = await self._node.look()
        return _json(look.status) if look.up else _json({"error": look.why}, 503)

    async def _turns(self, request: Request) -> Response:
        since = _number(request, "since")
        look = await self._node.look()
        turns = self._node.turns_since(since, MOST_TURNS)
        return _json({"turns": turns, "next": self._node.next_seq, "now_ns": look.now_ns})

    async def _explain(self, request: Request) -> Response:
        job = request.query.get("job", "")
        if not job:
            raise Refused(sentence(400, "which job? Ask for /api/explain?job=NAME."))
        return await self._coordinators(self._node.ask("explain", job=job))

    async def _policies(self, _: Request) -> Response:
        return await self._coordinators(self._node.ask("policy"))

    async def _write(self, command: str, request: Request) -> Response:
        rules.check_asker(request, any_user=False)
        rules.check_writer(request, self._token)
        return await self._coordinators(self._node.tell(command, **_arguments(command, request.body)))

    async def _coordinators(self, question: Awaitable[dict[str, Any]]) -> Response:
        """The coordinator's answer; its own sentence where it refuses, or why it does not answer."""
        try:
            return _json(await question)
        except FAILURES as error:
            look = await self._node.look()
            return _json({"error": str(error)}, 400 if look.up else 503)


def _number(request: Request, name: str) -> int:
    given = request.query.get(name, "0")
    if not re.fullmatch("[0-9]{1,18}", given):
        raise Refused(sentence(400, f"{name}={given[:100]} is no number of a turn: it is 0 or more."))
    return int(given)


def _arguments(command: str, body: bytes) -> dict[str, Any]:
    """The JSON object in ``body``, if it has what ``command`` takes and nothing else. The coordinator checks values."""
    known = WRITES[command]
    try:
        given = json.loads(body, parse_constant=_no_number)
    except (ValueError, RecursionError):
        given = None
    if not isinstance(given, dict):
        raise Refused(sentence(400, f"send a JSON object with some of: {', '.join(known)}."))
    for name, value in given.items():
        if name not in known or not isinstance(value, known[name]) or isinstance(value, bool):
            text = json.dumps(value)[:100]
            raise Refused(sentence(400, f"{name[:100]!r}: {text} is nothing that {command} takes: {', '.join(known)}."))
    missing = {"job", "name"} & set(known) - set(given)
    if missing:
        raise Refused(sentence(400, f"{command} needs {', '.join(missing)}."))
    return given


def _no_number(text: str) -> None:
    raise ValueError(f"{text} is no JSON")


def _policy(page: bytes) -> str:
    """What the page may do: run its own script, wear its own style, ask this server; nothing else."""

    def allowed(tag: bytes) -> str:
        inside = re.findall(b"<" + tag + b">(.*?)</" + tag + b">", page, re.DOTALL)
        digests = [base64.b64encode(hashlib.sha256(text).digest()).decode() for text in inside]
        return " ".join(f"'sha256-{digest}'" for digest in digests)

    return (
        f"default-src 'none'; script-src {allowed(b'script')}; style-src {allowed(b'style')}; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
