"""Ranks that meet become a gang: those that share a coordinator, in the same order everywhere."""

from __future__ import annotations

import datetime
import importlib.util
import pathlib
import sys
import threading
import types

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

    def get_backend(self) -> str:
        return "nccl"

    def _get_default_store(self) -> HashStore:
        return self._store


def meet(coordinators: list[str | None], monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int, int] | None]:
    """One rank per entry, on a thread each; returns the place (gang, rank, size) that each took.

    None: a rank whose process does not run Hocket.
    """
    store, places = HashStore(), [None] * len(coordinators)
    mine = threading.local()
    monkeypatch.setattr(_job, "coordinator_path", lambda: coordinators[mine.rank])
    monkeypatch.setattr(_job, "join_gang", lambda *place: places.__setitem__(mine.rank, place))

    def rank(number: int) -> None:
        mine.rank = number
        gang.meet(Group(store, number, len(coordinators)))

    # Each rank is a process of its own, and this its first meeting.
    threads = [threading.Thread(target=rank, args=(number,)) for number, path in enumerate(coordinators) if path]
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


def test_ranks_do_not_wait_long_for_one_that_does_not_run_hocket(
    native: FakeNative, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(gang, "PATIENCE", datetime.timedelta(milliseconds=50))
    assert meet(["/run/a", "/run/a", None], monkeypatch) == [None, None, None]
    said = capfd.readouterr().err.splitlines()
    assert len(said) == 2, said
    # Who says it first, and last, may not have seen the other yet; one of them has.
    assert any("1 of 3 ranks (the first: 2) did not say" in line for line in said), said


@pytest.mark.parametrize("backend", ["fake", "cpu:fake,cuda:fake"])
def test_ranks_of_the_fake_backend_are_no_gang(
    native: FakeNative, monkeypatch: pytest.MonkeyPatch, backend: str
) -> None:
    from torch.distributed import distributed_c10d
    from torch.testing._internal.distributed.fake_pg import FakeStore

    joined: list[tuple[str, int, int]] = []
    monkeypatch.setattr(_job, "join_gang", lambda *place: joined.append(place))
    distributed_c10d.init_process_group(backend, rank=0, world_size=2, store=FakeStore())
    try:
        gang.meet(distributed_c10d)
    finally:
        distributed_c10d.destroy_process_group()
    assert joined == []


@pytest.fixture
def uninstalled(monkeypatch: pytest.MonkeyPatch) -> types.FunctionType:
    """PyTorch as it is before ``gang.install()``; returns its own ``init_process_group``."""
    from torch import distributed
    from torch.distributed import device_mesh, distributed_c10d

    original = getattr(distributed.init_process_group, "_hocket_original", distributed.init_process_group)
    for place in (distributed, distributed_c10d, device_mesh):
        monkeypatch.setattr(place, "init_process_group", original)
    return original


def test_ranks_that_meet_in_a_device_mesh_are_a_gang_too(uninstalled: types.FunctionType) -> None:
    from torch import distributed
    from torch.distributed import device_mesh, distributed_c10d

    gang.install()
    for place in (distributed, distributed_c10d, device_mesh):
        assert place.init_process_group._hocket_original is uninstalled


def test_who_imported_it_before_hocket_meets_too(
    uninstalled: types.FunctionType, monkeypatch: pytest.MonkeyPatch
) -> None:
    train = types.ModuleType("train")
    exec("from torch.distributed import init_process_group", vars(train))
    monkeypatch.setitem(sys.modules, "train", train)
    gang.install()
    assert train.init_process_group._hocket_original is uninstalled


class Touchy:
    """What libraries put among the modules, too."""

    __slots__ = ()

    def __getattr__(self, name: str) -> object:
        raise RuntimeError(f"nobody is to ask for {name}")


def test_modules_that_are_none_do_not_disturb_and_lazy_ones_stay_asleep(
    uninstalled: types.FunctionType, monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
) -> None:
    woken = tmp_path / "woken"
    (tmp_path / "lazy.py").write_text(f"open({str(woken)!r}, 'w')")
    spec = importlib.util.spec_from_file_location("lazy", tmp_path / "lazy.py")
    loader = importlib.util.LazyLoader(spec.loader)
    spec.loader = loader
    lazy = importlib.util.module_from_spec(spec)
    loader.exec_module(lazy)
    for name, module in (("touchy", Touchy()), ("nothing", None), ("lazy", lazy)):
        monkeypatch.setitem(sys.modules, name, module)
    gang.install()
    assert not woken.exists()
