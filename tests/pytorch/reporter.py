"""A plugin of pytest that writes a line of JSON when a test begins and when it has ended.

The file (environment variable ``PYTORCH_TESTS_REPORT``) outlives a process that a test ends: its last ``begin``
without an ``end`` names the test.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator

import pytest

_report = open(os.environ["PYTORCH_TESTS_REPORT"], "a", buffering=1)  # noqa: SIM115  (as long as the process)


def _say(**what: object) -> None:
    _report.write(json.dumps(what) + "\n")


def pytest_collection_finish(session: pytest.Session) -> None:
    if not session.testsfailed:  # a file that cannot be imported counts as one
        _say(collected=[item.nodeid for item in session.items])


class _Outcome:
    def __init__(self) -> None:
        self.word, self.why = "passed", ""

    def add(self, report: pytest.TestReport) -> None:
        if report.failed and self.word != "failed":
            crash = getattr(report.longrepr, "reprcrash", None)
            self.word, self.why = "failed", crash.message if crash else str(report.longrepr)
        elif report.skipped and self.word == "passed":
            skip = report.longrepr
            self.word, self.why = "skipped", skip[2] if isinstance(skip, tuple) else str(skip)


_outcomes: dict[str, _Outcome] = {}


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    _outcomes.setdefault(report.nodeid, _Outcome()).add(report)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    _say(begin=item.nodeid)
    outcome = yield
    found = _outcomes.pop(item.nodeid, _Outcome())
    _say(end=item.nodeid, outcome=found.word, why=found.why)
    return outcome
