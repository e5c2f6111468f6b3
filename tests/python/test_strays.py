"""Which threads are taken for some that may use the GPU unseen."""

from __future__ import annotations

import inspect
import multiprocessing.pool
import threading
import types
from collections.abc import Callable, Iterator
from typing import NoReturn

import pytest
from hocket import _strays, hooks


class Native:
    def __init__(self) -> None:
        self.said: list[bool] = []
        self.watched: list[int] = []  # idents

    def expect_strays(self, expected: bool) -> None:
        self.said.append(expected)

    def watch_visitor(self) -> None:
        self.watched.append(threading.get_ident())


class Monitor(threading.Thread):
    __module__ = "tqdm._monitor"


@pytest.fixture
def native(monkeypatch: pytest.MonkeyPatch) -> Native:
    # As before Hocket watches any of this process's threads.
    monkeypatch.setattr(threading.Thread, "_bootstrap_inner", inspect.unwrap(threading.Thread._bootstrap_inner))
    monkeypatch.delattr(threading.current_thread(), _strays._WATCHED, raising=False)
    # Whatever other tests have left running was there before.
    before = {thread for thread in threading.enumerate() if thread is not threading.current_thread()}
    every = _strays._threads
    monkeypatch.setattr(_strays, "_threads", lambda: [thread for thread in every() if thread not in before])
    monkeypatch.setattr(_strays, "_seen", [])
    native = Native()
    _strays.look(native)
    assert native.said == [False], "one thread, which is in its step"
    native.said.clear()
    return native


@pytest.fixture
def running() -> Iterator[Callable[[type[threading.Thread]], Callable[[], None]]]:
    """Starts a thread; what it returns ends it."""
    ends: list[Callable[[], None]] = []

    def start(kind: type[threading.Thread]) -> Callable[[], None]:
        may_end = threading.Event()
        thread = kind(target=may_end.wait)
        thread.start()

        def end() -> None:
            may_end.set()
            thread.join()

        ends.append(end)
        return end

    yield start
    for end in ends:
        end()


def test_a_thread_of_the_program_is_expected_to_stray_until_it_ends(native: Native, running) -> None:
    _strays.look(native)
    assert native.said == [], "nothing has changed"
    end = running(threading.Thread)
    _strays.look(native)
    _strays.look(native)
    assert native.said == [True]
    end()
    _strays.look(native)
    assert native.said == [True, False]


def test_threads_whose_operators_are_watched_do_not_stray(
    native: Native, running, monkeypatch: pytest.MonkeyPatch
) -> None:
    main = threading.current_thread()
    monkeypatch.setattr(main, _strays._WATCHED, True, raising=False)  # taken back at the end
    before = running(threading.Thread)
    _strays.watch(native)
    running(Monitor)
    running(threading.Thread)
    assert native.watched[0] == main.ident
    assert len(set(native.watched)) == 3, "each on itself"
    _strays.look(native)
    assert native.said == [True], "one was there before"
    before()
    _strays.look(native)
    assert native.said == [True, False]


def test_as_many_threads_are_not_the_same_threads(native: Native, running) -> None:
    end = running(Monitor)
    _strays.look(native)
    end()
    running(threading.Thread)
    _strays.look(native)
    assert native.said == [False, True]


def test_the_main_thread_may_stray_while_another_one_has_the_steps(native: Native) -> None:
    other = threading.Thread(target=_strays.look, args=(native,))
    other.start()
    other.join()
    assert native.said == [True]


def test_a_pool_of_threads_is_not_one_of_processes(native: Native) -> None:
    with multiprocessing.pool.ThreadPool(1):
        _strays.look(native)
    assert native.said == [True]


def test_threads_of_libraries_that_compute_nothing_are_not(native: Native, running) -> None:
    running(Monitor)
    _strays.look(native)
    assert native.said == [False]
    running(threading.Thread)
    _strays.look(native)
    assert native.said == [False, True]


def test_hockets_own_thread_of_a_jobs_first_minute_is_not(native: Native, monkeypatch: pytest.MonkeyPatch) -> None:
    before = threading.enumerate()
    minute = threading.Event()
    monkeypatch.setattr(hooks, "time", types.SimpleNamespace(sleep=lambda _: minute.wait()))
    hooks.warn_without_boundaries(types.SimpleNamespace(boundaries=1), "resnet")
    (thread,) = (thread for thread in threading.enumerate() if thread not in before)
    _strays.look(native)
    minute.set()
    thread.join()
    assert native.said == [False]


@pytest.mark.parametrize(
    ("place", "harmless"), [("tqdm", True), ("tqdm.auto", True), ("tqdmx", False), ("torch.utils.data._utils", True)]
)
def test_a_place_is_a_package_or_what_lies_in_it(place: str, harmless: bool) -> None:
    kind = type("Kind", (threading.Thread,), {"__module__": place})
    assert _strays._is_harmless(kind()) == harmless


def test_all_threads_that_run_are_seen() -> None:
    assert _strays._running is not None  # as long as Python has it: the quick way is the one that is used
    go = threading.Event()
    thread = threading.Thread(target=go.wait)
    thread.start()
    assert set(_strays._threads()) == set(threading.enumerate()) and thread in _strays._threads()
    go.set()
    thread.join()
    assert set(_strays._threads()) == set(threading.enumerate()) and thread not in _strays._threads()


class _Changes(dict[int, threading.Thread]):
    def values(self) -> NoReturn:
        raise RuntimeError("dictionary changed size during iteration")


@pytest.mark.parametrize("running", [None, _Changes()])
def test_where_they_cannot_be_listed_quickly_they_are_listed(
    running: dict[int, threading.Thread] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_strays, "_running", running)
    assert _strays._threads() == threading.enumerate()
