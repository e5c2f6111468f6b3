"""hocket.join() and hocket.leave(): what a job says of itself, and what is refused."""

from __future__ import annotations

from typing import Any

import hocket
import numpy
import pytest
from fakes import FakeNative
from hocket import _autoload, _job


def test_join_says_who_the_job_is_before_it_joins(native: FakeNative) -> None:
    hocket.join(name="resnet", weight=2, priority="high", memory_limit="20GiB", total_steps=10_000)
    assert not native.joined
    assert native.options == {
        "name": "resnet",
        "weight": 2,
        "priority": "high",
        "memory_limit": 20 << 30,
        "total_steps": 10_000,
        "serves": False,
        "group": "",
    }


def test_join_says_that_it_serves(native: FakeNative, monkeypatch: pytest.MonkeyPatch) -> None:
    hocket.join(serves=True)
    assert native.options["serves"] is True
    monkeypatch.setenv("HOCKET_SERVES", "1")
    assert _job.options_from_environment().serves
    monkeypatch.setenv("HOCKET_SERVES", "yes")
    with pytest.raises(ValueError, match="HOCKET_SERVES='yes': it must be 1 or 0"):
        _job.options_from_environment()


def test_what_join_does_not_say_stays_as_hocket_run_said_it(
    native: FakeNative, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOCKET_NAME", "from-the-command-line")
    monkeypatch.setenv("HOCKET_WEIGHT", "3")
    monkeypatch.setattr(_job, "_options", _job.options_from_environment())
    hocket.join(priority="low")
    assert native.options["name"] == "from-the-command-line"
    assert (native.options["weight"], native.options["priority"]) == (3.0, "low")


def test_join_says_which_group_the_job_belongs_to(native: FakeNative, monkeypatch: pytest.MonkeyPatch) -> None:
    hocket.join(group="vision")
    assert native.options["group"] == "vision"
    monkeypatch.setenv("HOCKET_GROUP", "speech")
    monkeypatch.setattr(_job, "_options", _job.options_from_environment())
    hocket.join(name="one-of-them")
    assert native.options["group"] == "speech"


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        ("group", "two words", "group is 'two words': it must be a name of letters, digits"),
        ("group", 7, "group is 7"),
        ("weight", 0, "weight is 0: it must be a number > 0"),
        ("weight", -1.5, "weight is -1.5"),
        ("weight", float("nan"), "weight is nan"),
        ("weight", float("inf"), "weight is inf"),
        ("priority", "urgent", "priority is 'urgent': it must be one of high, normal, low"),
        ("memory_limit", -1, "memory_limit is -1 bytes"),
        ("memory_limit", 0.5, "memory_limit is 0.5 bytes: it must be a whole number > 0"),
        ("total_steps", -5, "total_steps is -5"),
        (
            "total_steps",
            2.5,
            r"total_steps is 2.5: it must be a whole number > 0 and < 2\^63, or 0 where",
        ),
        ("total_steps", float("inf"), "total_steps is inf"),
        ("total_steps", 1 << 64, "total_steps is 18446744073709551616"),
        ("total_steps", "many", "total_steps is many"),
        ("serves", "no", "serves is 'no': it must be True or False"),
    ],
)
def test_an_option_out_of_range_is_named_with_its_value(
    native: FakeNative, option: str, value: object, said: str
) -> None:
    with pytest.raises(ValueError, match=said):
        hocket.join(**{option: value})


@pytest.mark.parametrize("number", [1000, 1e3, numpy.int64(1000), numpy.float32(1000)])
def test_whole_numbers_of_any_type_are_numbers_of_steps_and_of_bytes(native: FakeNative, number: Any) -> None:
    hocket.join(total_steps=number, memory_limit=number, weight=number)
    assert (native.options["total_steps"], native.options["memory_limit"], native.options["weight"]) == (1000,) * 3
    assert {type(native.options[option]) for option in ("total_steps", "memory_limit")} == {int}


def test_what_stops_the_first_import_stops_the_second_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_job, "_native", None)
    monkeypatch.setattr(_job, "_activated", False)
    monkeypatch.setenv("HOCKET_WEIGHT", "heavy")
    for _ in range(2):
        with pytest.raises(ValueError, match="HOCKET_WEIGHT='heavy'"):
            _job.activate()


def test_a_wrong_environment_variable_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOCKET_WEIGHT", "heavy")
    with pytest.raises(ValueError, match="HOCKET_WEIGHT='heavy'"):
        _job.options_from_environment()


def test_joining_twice_is_an_error_that_says_what_to_do(native: FakeNative) -> None:
    list(hocket.steps([1]))
    with pytest.raises(hocket.HocketError, match=r"already.*Call join\(\) before both"):
        hocket.join(name="late")


def test_leave_before_joining_does_nothing(native: FakeNative) -> None:
    hocket.leave()
    assert native.story == []


def test_leave_ends_the_job(native: FakeNative) -> None:
    list(hocket.steps([1]))
    hocket.leave()
    assert native.story[-1] == "leave"


def test_joining_after_leaving_is_an_error_that_says_what_to_do(native: FakeNative) -> None:
    list(hocket.steps([1]))
    hocket.leave()
    with pytest.raises(hocket.HocketError, match=r"has left with hocket.leave\(\).*a process of its own"):
        hocket.join(name="again")


def test_another_torch_is_refused_with_how_to_rebuild(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ImportError, match=r"built for torch .*has torch 1.0.0.*pip install"):
        _job._load_native("1.0.0")


class LateTorch:
    """A torch whose CUDA has started."""

    class cuda:
        @staticmethod
        def is_initialized() -> bool:
            return True


def test_an_allocator_that_cannot_be_served_is_said_and_the_job_goes_on(
    native: FakeNative, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse() -> int:
        raise hocket.HocketError("libc10_cuda.so does not import cudaMalloc from another library.")

    monkeypatch.setattr(native, "keep_native_allocator", refuse)
    _job._install_allocator(LateTorch, native, "hocket")
    said = capsys.readouterr().err
    assert "CUDA had started before hocket was imported, and libc10_cuda.so does not import cudaMalloc" in said
    assert "takes turns, but its memory stays where it is" in said


def test_an_unknown_allocator_is_named_with_those_that_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOCKET_ALLOCATOR", "natve")
    with pytest.raises(ValueError, match="HOCKET_ALLOCATOR='natve': it must be one of hocket, native, off"):
        _job.allocator_from_environment()


def test_without_a_coordinator_the_line_names_no_job(
    native: FakeNative, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("LOCAL_RANK", raising=False)
    _autoload._announce({**native.info(), "id": 0, "name": "", "device_name": "a GPU"})
    assert capsys.readouterr().err == "hocket: no coordinator, so this program takes no turns on a GPU\n"
