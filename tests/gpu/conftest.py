"""Fixtures and the record of tests/gpu: which device, what it can do, and what was measured on the way.

    pytest tests/gpu [--emulate] [--size small|full] [--record FILE]

A test marked ``needs("graphs")`` is deselected where the device cannot do that; programs/can.py tries it, nobody asks
what kind of device it is. ``--record`` appends a JSON line per test, per deselected test and per measured fact.
"""

from __future__ import annotations

import fcntl
import functools
import json
import os
import pathlib
import tempfile
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.gpu.device import Device

_config: pytest.Config


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("gpu")
    group.addoption("--emulate", action="store_true", help="on an emulated GPU (default: this machine's)")
    group.addoption("--size", choices=["small", "full"], help="of the models (default: full; small with --emulate)")
    group.addoption("--record", help="a file to which results and facts are appended")


def pytest_configure(config: pytest.Config) -> None:
    global _config
    _config = config
    config.addinivalue_line("markers", "needs(what): deselected where programs/can.py says the device cannot do it")
    config.addinivalue_line("markers", "alone: it measures, watches the device's memory or fills it")


def _record(**line: Any) -> None:
    if path := _config.getoption("--record"):
        with open(path, "a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")


def _device(folder: str) -> Device:
    emulate = _config.getoption("--emulate")
    return Device(pathlib.Path(folder), emulate, _config.getoption("--size") or ("small" if emulate else "full"))


@functools.cache
def _why_not(what: str) -> str:
    """Why the device cannot do it; empty when it can. Where several processes run tests, one of them tries."""
    run = os.environ.get("PYTEST_XDIST_TESTRUNUID")
    if not run:
        return _try(what)
    answer = pathlib.Path(tempfile.gettempdir()) / f"hk-can-{what}-{run}"
    with open(answer, "a+", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        found = file.read()
        if not found:
            found = f"it cannot: {why}" if (why := _try(what)) else "it can"
            file.write(found)
    return found.removeprefix("it cannot: ") if found != "it can" else ""


def _try(what: str) -> str:
    with tempfile.TemporaryDirectory(prefix="hk-") as folder:
        device = _device(folder)
        probe = device.program("can", what)
        status = probe.wait()
        device.close()
        return "" if status == 0 else next((line for line in reversed(probe.errors) if line), f"status {status}")


@pytest.hookimpl(trylast=True)  # when others have deselected
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    left_out = []
    for item in items:
        for mark in item.iter_markers("needs"):
            if why := _why_not(mark.args[0]):
                if os.environ.get("PYTEST_XDIST_WORKER", "gw0") == "gw0":
                    _record(test=item.name, outcome="cannot", why=f"{mark.args[0]}: {why}")
                left_out.append(item)
                break
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo) -> Iterator[None]:
    outcome = yield
    report = outcome.get_result()
    if report.when == "call" or report.failed:
        why = str(report.longrepr)[-3000:] if report.failed else ""
        _record(test=item.name, outcome=report.outcome, seconds=round(report.duration, 2), why=why)


@pytest.fixture
def device() -> Iterator[Device]:
    with tempfile.TemporaryDirectory(prefix="hk-") as folder:  # pytest's own path is too long for a socket
        device = _device(folder)
        yield device
        device.close()


@pytest.fixture(params=["hocket", "native"])
def each_allocator(device: Device, request: pytest.FixtureRequest) -> str:
    """The test runs under Hocket's allocator, and under PyTorch's own over Hocket's memory."""
    device.environment["HOCKET_ALLOCATOR"] = request.param
    return request.param


@pytest.fixture
def fact() -> Callable[..., None]:
    """``fact(name, value, unit)``: something measured that is no pass or fail; it goes into the record."""

    def record(name: str, value: Any, unit: str = "") -> None:
        _record(fact=name, value=value, unit=unit)

    return record
