"""Ranks that meet become a gang: those that share a coordinator, in the same order everywhere."""

from __future__ import annotations

import threading

import pytest
from fakes import FakeNative
from hocket import _job, gang
from torch.distributed import HashStore


class Group:
    """What init_process_group leaves behind, for one rank."""

    def __init__(self, store: HashStore, rank: int, size: int) -> None:
        self._store, self._rank, self._size = store, rank, size

    def get_world_size(self) -> int:
        return self._size

    def get_rank(self) -> int:
        return self._rank

    def _get_default_store(self) -> HashStore:
        return self._store


def meet(coordinators: list[str], monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int, int] | None]:
    """One rank per entry, on a thread each; returns the place (gang, rank, size) that each took."""
    store, places = HashStore(), [None] * len(coordinators)
    mine = threading.local()
    monkeypatch.setattr(_job, "coordinator_path", lambda: coordinators[mine.rank])
    monkeypatch.setattr(_job, "join_gang", lambda *place: places.__setitem__(mine.rank, place))

    def rank(number: int) -> None:
        mine.rank = number
        gang.meet(Group(store, number, len(coordinators)))

    # Each rank is a process of its own, and this its first meeting.
    threads = [threading.Thread(target=rank, args=(number,)) for number in range(len(coordinators))]
    monkeypatch.setattr(gang, "_count_meeting", lambda: 1)
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return places


def test_ranks_of_one_coordinator_are_one_gang(native: FakeNative, monkeypatch: pytest.MonkeyPatch) -> None:
    places = meet(["/run/a"] * 3, monkeypatch)
    assert [(rank, size) for _, rank, size in places] == [(0, 3), (1, 3), (2, 3)]
    assert len({name for name, _, _ in places}) == 1


def test_ranks_of_two_coordinators_are_two_gangs(native: FakeNative, monkeypatch: pytest.MonkeyPatch) -> None:
    places = meet(["/run/a", "/run/b", "/run/a", "/run/b"], monkeypatch)
    assert [(rank, size) for _, rank, size in places] == [(0, 2), (0, 2), (1, 2), (1, 2)]


def test_a_rank_alone_with_its_coordinator_is_no_gang(native: FakeNative, monkeypatch: pytest.MonkeyPatch) -> None:
    assert meet(["/run/a", "/run/b"], monkeypatch) == [None, None]


def test_a_world_of_one_is_no_gang(native: FakeNative, monkeypatch: pytest.MonkeyPatch) -> None:
    assert meet(["/run/a"], monkeypatch) == [None]
