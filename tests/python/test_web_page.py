"""The page: what it works out before it draws, and that it needs nothing from elsewhere."""

from __future__ import annotations

import json
import pathlib
import re
from html.parser import HTMLParser
from typing import Any

import pytest
import quickjs
from hocket.web import routes
from web_world import GPU, a_job, a_turn

PAGE = pathlib.Path(routes.__file__).with_name("page.html")
SECOND = 10**9
NOW = 1000 * SECOND
DEVICE = {"uuid": GPU, "name": "a GPU", "capacity": 100, "arena": 20, "free": 30, "holder": "resnet", "jobs": [1]}


def script() -> str:
    found = re.search(r"<script>(.*)</script>", PAGE.read_text(), re.DOTALL)
    assert found
    return found[1]


@pytest.fixture
def page() -> Any:
    """Calls a function of the page's script; arguments and result as JSON."""
    context = quickjs.Context()
    context.eval(script())

    def call(function: str, *arguments: Any) -> Any:
        said = ", ".join(json.dumps(argument) for argument in arguments)
        return json.loads(context.eval(f"JSON.stringify({function}({said}))"))

    return call


def turn(begin_s: float, end_s: float, **other: Any) -> dict[str, Any]:
    """A turn from so many seconds before now until so many seconds before now."""
    return a_turn(0, start_ns=int(NOW - begin_s * SECOND), end_ns=int(NOW - end_s * SECOND), **other)


def test_memory_is_shown_by_whose_it_is_and_adds_up(page: Any) -> None:
    jobs = [a_job(1, persistent=30, spilled=5), a_job(2, "bert", persistent=10), a_job(3, "new", persistent=0)]
    memory = page("memoryOf", DEVICE, jobs)
    assert [(part["what"], part["bytes"]) for part in memory["on"]] == [
        ("resnet", 30), ("bert", 10), ("transient (shared)", 20), ("other", 10)]  # fmt: skip
    assert sum(part["share"] for part in memory["on"]) == pytest.approx(0.7)
    assert [(part["what"], part["share"]) for part in memory["host"]] == [("resnet", 0.05)]
    assert len({part["colour"] for part in memory["on"]}) == 4


def test_memory_beyond_the_capacity_does_not_leave_the_bar(page: Any) -> None:
    memory = page("memoryOf", {**DEVICE, "free": 0}, [a_job(1, persistent=500)])
    assert sum(part["share"] for part in memory["on"]) <= 1.0001


@pytest.mark.parametrize(
    ("holder", "states", "who", "more"),
    [
        ("resnet", ["holds", "waits"], "resnet has the turn", "for 3.2 s; 1 job waits"),
        ("resnet", ["holds"], "resnet has the turn", "for 3.2 s; nobody waits"),
        ("", ["idle", "paused"], "Nobody has the turn", "nobody waits"),
        ("", ["waits", "waits"], "Nobody has the turn", "2 jobs wait"),
        ("gang", ["holds", "holds"], "gang have the turn", "for 3.2 s; nobody waits"),
    ],
)
def test_who_has_the_turn_is_a_sentence(page: Any, holder: str, states: list[str], who: str, more: str) -> None:
    jobs = [a_job(i, f"j{i}", state=s, turn_s=3.2 if s == "holds" else None) for i, s in enumerate(states)]
    assert page("holderOf", {**DEVICE, "holder": holder}, jobs) == {"who": who, "more": more}


def test_turns_lie_where_they_were_in_time(page: Any) -> None:
    turns = [
        turn(70, 65),  # too long ago
        turn(62, 45, steps=7, restored=3, reason="its turn"),  # began before the picture does
        turn(30, 15, ready_ns=3 * SECOND, died=True),
        turn(30, 15, job=2, name="bert"),  # another's
    ]
    first, second = page("boxesOf", a_job(), turns, NOW, 60)
    assert (first["begin"], first["end"]) == (0, pytest.approx(0.25))
    assert (first["steps"], first["restored"], first["reason"]) == (7, 3, "its turn")
    assert (second["begin"], second["ready"], second["end"]) == pytest.approx((0.5, 0.55, 0.75))
    assert second["died"] is True


def test_the_present_turn_reaches_to_now(page: Any) -> None:
    (box,) = page("boxesOf", a_job(state="holds", turn_s=15.0), [], NOW, 60)
    assert (box["begin"], box["end"]) == (pytest.approx(0.75), 1)
    (long,) = page("boxesOf", a_job(state="holds", turn_s=1e6), [], NOW, 60)
    assert (long["begin"], long["end"]) == (0, 1)
    assert page("boxesOf", a_job(state="waits"), [], NOW, 60) == []


def test_a_thousand_short_turns_are_few_boxes_that_count_them_all(page: Any) -> None:
    turns = [turn(60 - i * 0.01, 60 - i * 0.01 - 0.005, steps=2) for i in range(1000)]
    boxes = page("boxesOf", a_job(), turns, NOW, 60)
    assert len(boxes) < 120
    assert sum(box["turns"] for box in boxes) == 1000
    assert sum(box["steps"] for box in boxes) == 2000
    assert sum(box["seconds"] for box in boxes) == pytest.approx(5)


def test_a_job_that_has_ended_keeps_its_row_while_its_turns_are_seen(page: Any) -> None:
    turns = [turn(50, 40), turn(30, 20, job=2, name="bert"), turn(30, 20, job=3, name="far", device="GPU-2")]
    rows = page("rowsOf", DEVICE, [a_job()], turns, NOW, 60)
    assert [(row["name"], len(row["boxes"])) for row in rows] == [("resnet", 1), ("bert (ended)", 1)]
    assert [row["name"] for row in page("rowsOf", DEVICE, [a_job()], turns, NOW, 10)] == ["resnet"]


@pytest.mark.parametrize(("span", "first"), [(10, "-10 s -8 s"), (60, "-1 min -48 s"), (300, "-5 min -4 min")])
def test_the_times_under_the_picture_are_whole(page: Any, span: int, first: str) -> None:
    texts = [tick["text"].replace("\N{MINUS SIGN}", "-") for tick in page("ticksOf", span)]
    assert " ".join(texts).startswith(first)
    assert texts[-1] == "now"
    assert all(re.fullmatch("now|-[0-9]+ (s|min)", text) for text in texts)


@pytest.mark.parametrize(
    ("function", "value", "text"),
    [("size", 0, "0 B"), ("size", 1536, "1.5 KiB"), ("size", 61 << 30, "61.0 GiB"), ("duration", 0.0042, "4.2 ms"),
     ("duration", 1.3, "1.3 s"), ("duration", 720, "12 min"), ("duration", 36000, "10.0 h"), ("duration", None, "?")],
)  # fmt: skip
def test_numbers_are_for_people(page: Any, function: str, value: Any, text: str) -> None:
    assert page(function, value) == text


class _Elements(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.references: list[str] = []
        self.handlers: list[str] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        for name, value in attributes:
            if name == "id":
                self.ids.add(value or "")
            if name in ("src", "href", "action", "data"):
                self.references.append(value or "")
            if name.startswith("on") or name == "style":  # the policy that is sent with the page forbids them
                self.handlers.append(name)


def test_the_page_needs_nothing_but_this_server() -> None:
    elements = _Elements()
    elements.feed(PAGE.read_text())
    assert elements.handlers == []
    assert all(reference.startswith("/") and not reference.startswith("//") for reference in elements.references)
    text = PAGE.read_text().replace("http://www.w3.org/2000/svg", "")
    assert not re.search(r"https?://|@import|url\(", text)
    assert set(re.findall(r'(?:find|getElementById)\("(\w+)"\)', text)) <= elements.ids
    assert "innerHTML" not in text, "a job's name would be read as markup"


def test_the_policy_sent_with_the_page_allows_its_script_and_no_other() -> None:
    page = PAGE.read_bytes()
    policy = routes._policy(page)
    assert policy.count("'sha256-") == 2
    assert "unsafe" not in policy and "default-src 'none'" in policy
    assert routes._policy(page.replace(b'"use strict";', b'"use strict"; evil();')) != policy
