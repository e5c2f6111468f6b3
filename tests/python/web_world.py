"""`hocket web` in this process, over a coordinator that says what a test lets it say."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import http.client
import json
import pathlib
import socket
import threading
from collections.abc import Iterator
from typing import Any

from hocket.errors import CoordinatorUnavailable, HocketError
from hocket.web.door import Door, Limits
from hocket.web.node import Node
from hocket.web.routes import Routes
from hocket.web.token import Token

PATIENCE = 300  # seconds until a test that hangs is given up

GPU = "GPU-1"
DAEMON = {"pid": 5, "version": "0.0", "epoch": 1, "uptime_s": 3.0, "policy": "fair", "switch_share": 0.02}


def a_job(number: int = 1, name: str = "resnet", **other: Any) -> dict[str, Any]:
    job = {
        "id": number, "name": name, "pid": 100 + number, "user": 0, "device": GPU, "state": "idle",
        "why": "is between two steps",
        "weight": 1.0, "priority": "normal", "total_steps": 0, "persistent": 1 << 30, "transient": 0, "spilled": 0,
        "spilled_total": 0, "restored_total": 0, "turns": 0, "steps": 0, "step_time_ms": 0.0, "held_s": 0.0,
        "turn_s": None, "waited_s": 0.0, "slowdown": 1.0, "to_go_s": None, "overdue": False,
        "measured": {"step": None, "beside": None, "gap": None, "ready": None},
    }  # fmt: skip
    return job | other


def a_turn(index: int, job: int = 1, name: str = "resnet", **other: Any) -> dict[str, Any]:
    turn = {
        "index": index, "turn": index + 1, "job": job, "name": name, "user": 0, "device": GPU, "start_ns": 0,
        "end_ns": 10**9, "steps": 4, "restored": 0, "ahead": 0, "spilled": 0, "ready_ns": 0, "hand_over_ns": 10**6,
        "died": False, "reason": "only",
    }  # fmt: skip
    return turn | other


class Coordinator:
    """What the web asks. ``asked`` is what it was asked, in order; ``trouble`` is raised instead of an answer."""

    def __init__(self) -> None:
        self.epoch = 1
        self.jobs: list[dict[str, Any]] = [a_job()]
        self.turns: list[dict[str, Any]] = []
        self.free = 4 << 30
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.trouble: Exception | None = None

    def ask(self, command: str, path: str = "", timeout_ms: int = 0, **arguments: Any) -> dict[str, Any]:
        self.asked.append((command, arguments))
        if self.trouble is not None:
            raise self.trouble
        return copy.deepcopy(getattr(self, f"_{command}")(**arguments))

    def dies(self) -> None:
        self.trouble = CoordinatorUnavailable("no coordinator runs at /nowhere")

    def starts_anew(self) -> None:
        self.trouble = None
        self.epoch += 1
        self.turns = []

    def _status(self) -> dict[str, Any]:
        holder = next((job["name"] for job in self.jobs if job["state"] == "holds"), "")
        device = {"uuid": GPU, "name": "a GPU", "capacity": 8 << 30, "holder": holder, "arena": 1 << 30,
                  "persistent": 1 << 30, "free": self.free, "jobs": [job["id"] for job in self.jobs],
                  "link": {"bytes_per_s": 5e10, "beside_bytes": 17, "beside_s": 0.5}}  # fmt: skip
        return {"daemon": DAEMON | {"epoch": self.epoch}, "devices": [device], "jobs": self.jobs}

    def _turns(self, since: int) -> dict[str, Any]:
        since = min(since, len(self.turns))
        page = self.turns[since : since + 1000]
        return {"turns": page, "next": since + len(page), "first": 0, "end": len(self.turns)}

    def _named(self, job: str) -> dict[str, Any]:
        for known in self.jobs:
            if known["name"] == job:
                return known
        raise HocketError(f"there is no job '{job}'.")

    def _explain(self, job: str) -> dict[str, Any]:
        return {key: self._named(job)[key] for key in ("name", "state", "why")}

    def _policy(self, name: str = "fair") -> dict[str, Any]:
        return {"policy": name, "policies": [{"name": "fair", "summary": "shares"}]}

    def _pause(self, job: str) -> dict[str, Any]:
        self._named(job)["state"] = "paused"
        return self._named(job)

    def _resume(self, job: str) -> dict[str, Any]:
        self._named(job)["state"] = "idle"
        return self._named(job)

    def _set(self, job: str, **changes: Any) -> dict[str, Any]:
        self._named(job).update(changes)
        return self._named(job)


class Answer:
    def __init__(self, status: int, headers: dict[str, str], body: bytes) -> None:
        self.status = status
        self.headers = headers
        self.body = body

    @property
    def text(self) -> str:
        return self.body.decode()

    def json(self) -> Any:
        return json.loads(self.body)


class Web:
    """Serves from a thread of its own until ``close``. ``fresh_s`` 0: each question is asked anew."""

    def __init__(self, folder: pathlib.Path, limits: Limits | None = None, fresh_s: float = 0.0, **routes: Any) -> None:
        self.coordinator = Coordinator()
        self.token = Token(folder / "hocket" / "web-token")
        self.token.make()
        self.door: Door | None = None
        self.port = 0
        self._loop = asyncio.new_event_loop()
        self._end = asyncio.Event()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(limits, fresh_s, routes))
        self._thread.start()
        assert self._ready.wait(PATIENCE)

    def _run(self, limits: Limits | None, fresh_s: float, routes: dict[str, Any]) -> None:
        async def serve() -> None:
            node = Node(self.coordinator.ask, fresh_s)
            self.door = Door(Routes(node, self.token, **routes).answer, limits, any_user=routes.get("any_user", False))
            server = await self.door.listen(0)
            self.port = server.sockets[0].getsockname()[1]
            self._ready.set()
            await self._end.wait()
            server.close()

        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(serve())

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._end.set)
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive()

    @contextlib.contextmanager
    def busy(self) -> Iterator[None]:
        """It looks at nothing until the end of this block: then all that was said meanwhile is there at once."""
        free = threading.Event()
        self._loop.call_soon_threadsafe(free.wait, PATIENCE)
        try:
            yield
        finally:
            free.set()

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE)

    def say(self, *text: bytes) -> bytes:
        """Says these bytes as they are; what comes back until the other end hangs up."""
        with self.connect() as connection:
            for part in text:
                connection.sendall(part)
            return read_to_end(connection)

    def ask(self, path: str, method: str = "GET", body: Any = None, **headers: str) -> Answer:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        try:
            text = None if body is None else json.dumps(body)
            named = {name.replace("_", "-"): value for name, value in headers.items()}
            connection.request(method, path, body=text, headers=named)
            response = connection.getresponse()
            return Answer(response.status, dict(response.getheaders()), response.read())
        finally:
            connection.close()

    def tell(self, command: str, body: Any, **headers: str) -> Answer:
        """As somebody who has the token."""
        known = {"Authorization": f"Bearer {self.token.read()}", "Content-Type": "application/json"}
        return self.ask(
            f"/api/{command}", "POST", body, **(known | {k.replace("_", "-"): v for k, v in headers.items()})
        )


def read_to_end(connection: socket.socket) -> bytes:
    said = b""
    while part := connection.recv(65536):
        said += part
    return said
