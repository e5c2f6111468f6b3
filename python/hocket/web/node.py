"""What is known of the node: the coordinator is asked when somebody asks here, and at most four times a second.

However many browsers and scrapers there are, one question is under way at a time, and its answer is everybody's. A
coordinator that is gone, hangs or talks nonsense is an answer too: ``Look.up`` is False, ``Look.why`` says which.
"""

from __future__ import annotations

import asyncio
import collections
import concurrent.futures
import dataclasses
import time
from collections.abc import Callable
from typing import Any

from hocket import _coordinator
from hocket.web.counts import Counts

FRESH_S = 0.25  # so old may an answer be
PATIENCE_MS = 10_000  # a coordinator that takes longer counts as not answering
KEPT_TURNS = 5000
FIRST_TURNS = 1000  # of a coordinator that was there before us
MOST_PAGES = 20  # of 1,000 turns, in one look; the next look goes on

# What a question can end in, beside an answer: see _coordinator.ask.
FAILURES = (RuntimeError, OSError, ValueError, MemoryError)

Ask = Callable[..., dict[str, Any]]


@dataclasses.dataclass(frozen=True)
class Look:
    up: bool
    why: str  # empty where it is up
    status: dict[str, Any] | None  # None where it is not
    now_ns: int  # CLOCK_MONOTONIC, as in the turns


class Node:
    """One event loop; the questions themselves run in threads of their own, four at most."""

    def __init__(self, ask: Ask = _coordinator.ask, fresh_s: float = FRESH_S) -> None:
        self.counts = Counts()
        # The last that have ended, each with its number `seq`: the coordinator's own numbers begin anew with it.
        self.turns: collections.deque[dict[str, Any]] = collections.deque(maxlen=KEPT_TURNS)
        self._ask = ask
        self._fresh_s = fresh_s
        self._threads = concurrent.futures.ThreadPoolExecutor(4, thread_name_prefix="hocket-asks")
        self._one_at_a_time = asyncio.Lock()
        self._last: Look | None = None
        self._looked = 0.0
        self._epoch: int | None = None
        self._next_turn = 0  # of this epoch
        self._next_seq = 0

    async def look(self) -> Look:
        """The node as it is, or was a moment ago."""
        async with self._one_at_a_time:
            if self._last is None or time.monotonic() - self._looked >= self._fresh_s:
                self._last = await self._in_a_thread(self._look_now)
                self._looked = time.monotonic()
            return self._last

    async def ask(self, command: str, **arguments: Any) -> dict[str, Any]:
        """The coordinator's own answer. Raises what ``_coordinator.ask`` does."""
        return await self._in_a_thread(lambda: self._ask(command, timeout_ms=PATIENCE_MS, **arguments))

    async def tell(self, command: str, **arguments: Any) -> dict[str, Any]:
        """As :meth:`ask`, for what changes something: the next look is a new one."""
        try:
            return await self.ask(command, **arguments)
        finally:
            self._looked = float("-inf")

    def turns_since(self, seq: int, most: int) -> list[dict[str, Any]]:
        """The newest of the turns from number ``seq`` on."""
        known = [turn for turn in self.turns if turn["seq"] >= seq]
        return known[-most:]

    @property
    def next_seq(self) -> int:
        return self._next_seq

    async def _in_a_thread(self, question: Callable[[], Any]) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._threads, question)

    def _look_now(self) -> Look:
        try:
            status = self._ask("status", timeout_ms=PATIENCE_MS)
            turns = self._new_turns(status["daemon"]["epoch"])
            self.counts.saw(status, turns, time.monotonic())
        except FAILURES as error:
            return Look(False, str(error), None, time.monotonic_ns())
        except (KeyError, TypeError, AttributeError) as error:
            why = f"what listens there gave an answer that is not understood ({type(error).__name__}: {error})"
            return Look(False, why, None, time.monotonic_ns())
        for turn in turns:
            self.turns.append({**turn, "seq": self._next_seq})
            self._next_seq += 1
        return Look(True, "", status, time.monotonic_ns())

    def _new_turns(self, epoch: int) -> list[dict[str, Any]]:
        since = self._next_turn
        if epoch != self._epoch:
            since = 0
            if self._epoch is None:  # it may remember 100,000
                since = max(0, self._page((1 << 63) - 1)["end"] - FIRST_TURNS)
        turns: list[dict[str, Any]] = []
        for _ in range(MOST_PAGES):
            page = self._page(since)
            if page["next"] < since:  # another coordinator answers than a moment ago: the next look sees it
                break
            turns += page["turns"]
            since = page["next"]
            if since >= page["end"]:
                break
        self._epoch, self._next_turn = epoch, since
        return turns

    def _page(self, since: int) -> dict[str, Any]:
        return self._ask("turns", timeout_ms=PATIENCE_MS, since=since)
