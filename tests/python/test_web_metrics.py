"""What Prometheus is told: a format that strict parsers take, counters that only grow, names that the guide and the
dashboard use rightly."""

from __future__ import annotations

import json
import pathlib
import pwd
import random
import re
from typing import Any

import pytest
from hocket.web import metrics
from hocket.web.counts import KEPT_S, MOST_JOBS, Counts, Histogram
from hocket.web.node import Look
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text
from web_world import GPU, Coordinator, a_job, a_turn

ROOT = pathlib.Path(__file__).parents[2]
OPENMETRICS = "application/openmetrics-text; version=1.0.0"


class Scene:
    """A coordinator that is looked at now and then."""

    def __init__(self) -> None:
        self.coordinator = Coordinator()
        self.counts = Counts()
        self.now = 0.0

    def look(self, *turns: dict[str, Any], after: float = 1.0) -> None:
        self.now += after
        self.counts.saw(self.coordinator.ask("status"), list(turns), self.now)

    def total(self, what: str, name: str = "resnet") -> float:
        return self.counts.jobs[name, 0, GPU].totals[what]

    def text(self, accept: str = "") -> str:
        look = Look(True, "", self.coordinator.ask("status"), 0)
        return metrics.text(look, self.counts, accept)[0].decode()


@pytest.fixture
def scene() -> Scene:
    return Scene()


# --- the format ------------------------------------------------------------------------------------------

AWKWARD = ['a"b', "back\\slash", "two\nlines", "ümläut ☂", "{}", 'le="1"', " ", "x" * 300]


@pytest.mark.parametrize(("accept", "parse"), [("", parse_text), (OPENMETRICS, parse_openmetrics)])
def test_strict_parsers_take_it_whatever_jobs_are_called(scene: Scene, accept: str, parse: Any) -> None:
    scene.coordinator.jobs = [a_job(i, name, turns=1, to_go_s=2.5) for i, name in enumerate(AWKWARD)]
    scene.look(*(a_turn(i, i, name) for i, name in enumerate(AWKWARD)))
    families = {family.name: family for family in parse(scene.text(accept))}
    named = {sample.labels["name"] for sample in families["hocket_job_memory_bytes"].samples}
    assert named == set(AWKWARD)
    assert len(families) > 25


def test_the_content_type_is_that_of_the_format(scene: Scene) -> None:
    look = Look(False, "gone", None, 0)
    assert metrics.text(look, scene.counts, "")[1].startswith("text/plain; version=")
    assert metrics.text(look, scene.counts, OPENMETRICS)[1].startswith("application/openmetrics-text")


def samples(scene: Scene) -> dict[str, float]:
    return {
        f"{sample.name}{sorted(sample.labels.items())}": sample.value
        for family in parse_openmetrics(scene.text(OPENMETRICS))
        for sample in family.samples
    }


def test_the_values_are_the_coordinators_in_the_unit_of_the_name(scene: Scene) -> None:
    scene.coordinator.jobs = [
        a_job(state="holds", step_time_ms=250.0, spilled=5, persistent=7, waited_s=1.5, held_s=2.5, steps=9, turns=3),
        a_job(2, "bert", state="waits"),
    ]
    scene.look(a_turn(0, restored=11, spilled=13, hand_over_ns=2_000_000))
    shown = samples(scene)
    key = [("device", GPU), ("name", "resnet"), ("user", "root")]
    assert shown[f"hocket_job_step_seconds{key}"] == 0.25
    assert (
        shown[f"hocket_job_memory_bytes{[('device', GPU), ('kind', 'spilled'), ('name', 'resnet'), ('user', 'root')]}"]
        == 5
    )
    assert shown[f"hocket_job_steps_total{key}"] == 9
    assert shown[f"hocket_job_device_seconds_total{key}"] == 2.5
    assert shown[f"hocket_job_waited_seconds_total{key}"] == 1.5
    assert shown[f"hocket_waiting_jobs{[('device', GPU)]}"] == 1
    assert shown[f"hocket_link_beside_bytes_total{[('device', GPU)]}"] == 17
    assert shown[f"hocket_link_beside_seconds_total{[('device', GPU)]}"] == 0.5
    assert shown[f"hocket_restored_bytes_total{[('device', GPU)]}"] == 11
    assert shown[f"hocket_spilled_bytes_total{[('device', GPU)]}"] == 13
    assert shown[f"hocket_hand_over_seconds_bucket{[('device', GPU), ('le', '0.001')]}"] == 0
    assert shown[f"hocket_hand_over_seconds_bucket{[('device', GPU), ('le', '0.003')]}"] == 1
    assert f"hocket_job_remaining_seconds{key}" not in shown  # nobody knows
    assert shown[f"hocket_job_slowdown_ratio{key}"] == 1.0
    scene.coordinator.jobs = [a_job(slowdown=None)]
    scene.look()
    assert "hocket_job_slowdown_ratio{" not in scene.text()


def test_a_gone_job_gives_its_name_to_the_one_that_runs(scene: Scene) -> None:
    scene.coordinator.jobs = [a_job(1, state="gone", persistent=1), a_job(2, state="holds", persistent=2)]
    scene.look()
    key = [("device", GPU), ("kind", "persistent"), ("name", "resnet"), ("user", "root")]
    assert samples(scene)[f"hocket_job_memory_bytes{key}"] == 2


def test_jobs_of_one_name_are_told_apart_by_their_users(scene: Scene) -> None:
    nobody = pwd.getpwnam("nobody").pw_uid
    scene.coordinator.jobs = [
        a_job(1, user=0, steps=3, persistent=1, state="gone"),
        a_job(2, user=nobody, steps=5, persistent=2),
        a_job(3, user=4_000_000_000, steps=7, persistent=3),
    ]
    scene.look(a_turn(0, 4, user=nobody, steps=10), a_turn(1, 5, user=0, steps=20))
    shown = samples(scene)
    for user, steps, persistent in (("root", 23, 1), ("nobody", 15, 2), ("4000000000", 7, 3)):
        labels = [("device", GPU), ("name", "resnet"), ("user", user)]
        assert shown[f"hocket_job_steps_total{labels}"] == steps
        assert shown[f"hocket_job_memory_bytes{sorted([*labels, ('kind', 'persistent')])}"] == persistent
    for what in ("hocket_job_turns_total", "hocket_job_weight", "hocket_job_overdue"):
        assert sum(key.startswith(f"{what}[") for key in shown) == 3


def test_an_older_coordinator_that_names_no_user_is_told_without(scene: Scene) -> None:
    scene.coordinator.jobs = [a_job(steps=3)]
    del scene.coordinator.jobs[0]["user"]
    scene.look()
    assert samples(scene)[f"hocket_job_steps_total{[('device', GPU), ('name', 'resnet'), ('user', '')]}"] == 3


def test_a_bound_holds_what_is_exactly_as_long() -> None:
    histogram = Histogram((1, 2))
    for seconds in (0.5, 1, 1.5, 2, 3):
        histogram.add(seconds)
    assert histogram.cumulative() == [("1", 2), ("2", 4), ("+Inf", 5)]


# --- counters that only grow --------------------------------------------------------------------------------


def test_a_restarted_coordinator_takes_nothing_from_the_counters(scene: Scene) -> None:
    scene.coordinator.jobs = [a_job(steps=100, held_s=50.0, waited_s=20.0, turns=10, spilled_total=1000)]
    scene.look()
    scene.coordinator.starts_anew()
    scene.coordinator.jobs = []  # not yet back
    scene.look()
    assert scene.total("steps") == 100
    # The job counts its steps and bytes itself; time and turns begin anew with the coordinator.
    scene.coordinator.jobs = [a_job(steps=103, held_s=1.0, waited_s=2.0, turns=1, spilled_total=1500)]
    scene.look()
    assert {what: scene.total(what) for what in ("steps", "device_s", "waited_s", "turns", "spilled")} == {
        "steps": 103, "device_s": 51, "waited_s": 22, "turns": 11, "spilled": 1500}  # fmt: skip
    assert scene.counts.restarts == 1


def test_what_the_allocator_counts_goes_on_and_what_moved_is_counted_anew(scene: Scene) -> None:
    def comes(planned: int, foretold_s: float) -> None:
        allocator = {"allocations": 2 * planned, "planned": planned, "deviated": 1, "survived": 9, "foreseen": 8,
                     "adopted": 1, "adopted_last": 0, "adopted_total": 4}  # fmt: skip
        moves = {"spill": {"timed": {"moves": 1, "s": 2 * foretold_s, "foretold_s": foretold_s, "error": 0.5}}}
        scene.coordinator.jobs = [a_job(allocator=allocator, moves=moves)]
        scene.look()

    comes(planned=10, foretold_s=1.0)
    scene.coordinator.starts_anew()
    comes(planned=15, foretold_s=0.25)
    labels = [("device", GPU), ("name", "resnet"), ("user", "root")]
    shown = samples(scene)
    for name, value in (("step_allocations", 30), ("planned_allocations", 15), ("adopted_bytes", 4)):
        assert shown[f"hocket_job_{name}_total{labels}"] == value
    spill = sorted([*labels, ("move", "spill")])
    assert shown[f"hocket_job_move_seconds_total{spill}"] == 2.5
    assert shown[f"hocket_job_move_foretold_seconds_total{spill}"] == 1.25


def test_a_job_that_says_nothing_of_its_allocator_has_the_other_counters(scene: Scene) -> None:
    scene.coordinator.jobs = [a_job(steps=3, allocator=None)]
    scene.look()
    assert scene.total("steps") == 3
    assert scene.total("planned") == 0


def test_the_next_job_of_a_name_adds_to_it(scene: Scene) -> None:
    scene.coordinator.jobs = [a_job(1, steps=10)]
    scene.look()
    scene.coordinator.jobs = [a_job(2, steps=4)]
    scene.look()
    scene.coordinator.jobs = [a_job(2, pid=999, steps=5)]  # another process under the same number
    scene.look()
    assert scene.total("steps") == 10 + 4 + 5


def test_a_job_that_comes_and_goes_between_two_looks_is_counted_by_its_turns(scene: Scene) -> None:
    scene.coordinator.jobs = []
    scene.look()
    scene.look(a_turn(0, 5, "short", steps=3), a_turn(1, 5, "short", steps=2, end_ns=2 * 10**9))
    assert (scene.total("steps", "short"), scene.total("turns", "short")) == (5, 2)
    assert scene.total("device_s", "short") == pytest.approx(3)


def test_the_last_steps_of_a_job_that_was_seen_are_counted_once(scene: Scene) -> None:
    scene.coordinator.jobs = [a_job(steps=4, turns=1, held_s=1.0)]
    scene.look(a_turn(0, steps=4))
    scene.coordinator.jobs = []
    scene.look(a_turn(1, steps=3))
    assert (scene.total("steps"), scene.total("turns"), scene.total("device_s")) == (7, 2, pytest.approx(2))


def test_a_number_that_shrinks_under_one_coordinator_is_not_counted_twice(scene: Scene) -> None:
    for waited in (5.0, 4.999, 5.5):
        scene.coordinator.jobs = [a_job(waited_s=waited)]
        scene.look()
    assert scene.total("waited_s") == 5.5


def test_counters_never_shrink_whatever_comes(scene: Scene) -> None:
    rng = random.Random(5)
    before: dict[str, float] = {}
    index = 0
    for _ in range(150):
        if rng.random() < 0.1:
            scene.coordinator.starts_anew()
        scene.coordinator.jobs = [
            a_job(i, f"job{i % 3}" if i < 3 else f"other{i}", pid=rng.choice((1, 2)), steps=rng.randrange(50),
                  turns=rng.randrange(9), held_s=rng.random(), waited_s=rng.random(), spilled_total=rng.randrange(9))
            for i in range(6) if rng.random() < 0.6
        ]  # fmt: skip
        turns = [a_turn(index + i, rng.randrange(8), f"job{rng.randrange(3)}") for i in range(rng.randrange(4))]
        index += len(turns)
        scene.look(*turns)
        after = {key: value for key, value in samples(scene).items() if "_total" in key or "_bucket" in key}
        for key, value in before.items():
            assert after[key] >= value, key
        before = after


def test_jobs_long_gone_are_no_longer_told_and_never_too_many(scene: Scene) -> None:
    scene.look()
    scene.coordinator.jobs = []
    scene.look(after=KEPT_S)
    assert ("resnet", 0, GPU) in scene.counts.jobs
    scene.look(after=KEPT_S)
    assert scene.counts.jobs == {}
    for i in range(3):
        scene.look(*(a_turn(0, 1 + k, f"job {i} {k}") for k in range(MOST_JOBS)))
        assert len(scene.counts.jobs) == MOST_JOBS
    assert ("job 2 0", 0, GPU) in scene.counts.jobs


# --- what uses the names --------------------------------------------------------------------------------------


def known_names() -> set[str]:
    """As in a query: with _total, _bucket, _sum and _count."""
    scene = Scene()
    scene.coordinator.jobs = [a_job(to_go_s=1.0)]
    scene.look(a_turn(0))
    return {sample.name for family in parse_text(scene.text()) for sample in family.samples}


def test_the_dashboard_asks_only_for_what_there_is() -> None:
    dashboard = json.loads((ROOT / "examples/grafana/hocket.json").read_text())
    expressions = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    expressions += [variable["definition"] for variable in dashboard["templating"]["list"] if "definition" in variable]
    assert len(expressions) > 15
    for expression in expressions:
        names = re.findall(r"\bhocket_\w+", expression)
        assert names, expression
        assert set(names) <= known_names(), expression
        assert expression.count("(") == expression.count(")") and expression.count("{") == expression.count("}")
    for panel in dashboard["panels"]:  # a curve of jobs keeps two users' apart, and says whose it is
        for target in panel["targets"]:
            if "{{name}}" in target["legendFormat"]:
                assert "{{user}}" in target["legendFormat"]
                assert " by (name)" not in target["expr"]
    for name in re.findall(r'hocket_job_state\{state=~?"([^"]+)"', " ".join(expressions)):
        assert set(name.split("|")) <= set(metrics.STATES)
    places = [(p["gridPos"]["x"], p["gridPos"]["y"], p["gridPos"]["w"], p["gridPos"]["h"]) for p in dashboard["panels"]]
    cells = [(x + i, y + j) for x, y, w, h in places for i in range(w) for j in range(h)]
    assert len(cells) == len(set(cells)), "two panels lie on each other"
    assert len({panel["id"] for panel in dashboard["panels"]}) == len(dashboard["panels"])


def test_how_foretold_times_have_held_is_counted_by_kind(scene: Scene) -> None:
    step = {
        "mean_ms": 9.0,
        "spread_ms": 1.0,
        "lower_ms": 8.0,
        "upper_ms": 10.0,
        "foretold": 40,
        "inside": 30,
        "above": 6,
    }
    of_older = {"mean_ms": 9.0, "spread_ms": 1.0}
    scene.coordinator.jobs = [a_job(measured={"step": step, "beside": None, "gap": of_older, "ready": None})]
    scene.look()
    told = {key: value for key, value in samples(scene).items() if "_foretold" in key}
    labels = f"[('device', '{GPU}'), ('name', 'resnet'), ('time', 'step'), ('user', 'root')]"
    assert told == {
        f"hocket_job_foretold_total{labels}": 40,
        f"hocket_job_foretold_inside_total{labels}": 30,
        f"hocket_job_foretold_above_total{labels}": 6,
    }


def test_what_another_coordinator_counts_anew_only_grows_here(scene: Scene) -> None:
    def looks(foretold: int, epoch: int) -> dict[str, float]:
        scene.coordinator.epoch = epoch
        step = {"mean_ms": 9.0, "spread_ms": 1.0, "foretold": foretold, "inside": foretold, "above": 0}
        scene.coordinator.jobs = [a_job(measured={"step": step, "beside": None, "gap": None, "ready": None})]
        scene.look()
        return samples(scene)

    link = f"hocket_link_beside_bytes_total{[('device', GPU)]}"
    held = f"hocket_job_foretold_total{[('device', GPU), ('name', 'resnet'), ('time', 'step'), ('user', 'root')]}"
    seen = [looks(40, 1), looks(45, 1), looks(3, 2), looks(50, 3)]
    assert [look[held] for look in seen] == [40, 45, 48, 98]
    assert [look[link] for look in seen] == [17, 17, 34, 51], "each coordinator says 17"
    scene.coordinator.jobs = []
    scene.look()
    assert samples(scene)[held] == 98, "also when the job has ended"


def test_the_guide_lists_every_metric_and_no_other() -> None:
    scene = Scene()
    scene.look(a_turn(0))
    families = {
        family.name + ("_total" if family.type == "counter" else "")
        for family in parse_openmetrics(scene.text(OPENMETRICS))
    }
    guide = (ROOT / "docs/user-guide.md").read_text()
    listed = set(re.findall(r"`(hocket_[a-z_]+)", guide))
    assert listed == families
