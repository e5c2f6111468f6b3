"""`hocket web` as a process, over a coordinator and jobs that are real."""

from __future__ import annotations

import http.client
import json
import os
import shutil
import signal
import subprocess
from typing import Any

from prometheus_client.parser import text_string_to_metric_families
from world import PATIENCE, Program, World, hocket_command

SMALL = ("--steps", 12, "--layers", 2, "--width", 256)


class Web:
    """A running `hocket web` on a port of its own."""

    def __init__(self, world: World, *options: str) -> None:
        self.world = world
        self.program: Program = world.start(*hocket_command(), "web", "--port", "0", *options, emulated=False)
        line = self.program.expect("http://127.0.0.1:")
        self.port = int(line.removeprefix("http://127.0.0.1:").partition("/")[0])
        self.token = world.folder / "config" / "hocket" / "web-token"

    def ask(self, path: str, body: Any = None, **headers: str) -> tuple[int, str]:
        connection = http.client.HTTPConnection("localhost", self.port, timeout=PATIENCE)
        try:
            text = None if body is None else json.dumps(body)
            connection.request("GET" if body is None else "POST", path, text, headers)
            response = connection.getresponse()
            return response.status, response.read().decode()
        finally:
            connection.close()

    def node(self) -> dict[str, Any]:
        status, text = self.ask("/api/node")
        assert status == 200, text
        return json.loads(text)

    def until(self, what: str, reached: Any) -> dict[str, Any]:
        """Asks again and again until ``reached`` is true of the node."""
        node, patience = self.node(), self.world.patience()
        while not reached(node):
            patience.look(f"{what}: {json.dumps(node)[:2000]}")
            node = self.node()
        return node

    def metrics(self) -> dict[tuple[str, str], float]:
        """(metric, job's name) -> value."""
        status, text = self.ask("/metrics")
        assert status == 200, text
        families = text_string_to_metric_families(text)
        return {(s.name, s.labels.get("name", "")): s.value for family in families for s in family.samples}


def states(node: dict[str, Any]) -> dict[str, str]:
    return {job["name"]: job["state"] for job in node["status"]["jobs"]} if node["up"] else {}


def test_the_node_is_seen_live_and_outlives_a_killed_coordinator(world: World) -> None:
    web = Web(world)
    nobody = web.node()
    assert nobody["up"] is False and "hocketd.sock" in nobody["why"]
    holding = world.job("train", "--name", "holding", "--hold", "4", *SMALL)
    holding.expect("step 4")
    waiting = world.job("train", "--name", "waiting", *SMALL)
    seen = web.until("one that holds, one that waits", lambda n: states(n) == {"holding": "holds", "waiting": "waits"})
    job = next(job for job in seen["status"]["jobs"] if job["name"] == "holding")
    assert job["turn_s"] > 0 and job["held_s"] >= job["turn_s"]
    status, said = web.ask("/api/explain?job=waiting")
    assert status == 200 and "holding" in json.loads(said)["why"]
    before = web.metrics()
    assert before["hocket_job_steps_total", "holding"] == 4
    assert before["hocket_job_device_seconds_total", "holding"] > 0
    assert before["hocket_waiting_jobs", ""] == 1

    killed = seen["status"]["daemon"]["pid"]
    os.kill(killed, signal.SIGKILL)
    holding.go_on()
    holding.finishes()
    waiting.finishes()
    web.until("another coordinator", lambda n: n["up"] and n["status"]["daemon"]["pid"] != killed)
    after = web.until("all turns over", lambda n: n["up"] and set(states(n).values()) <= {"idle", "gone"})
    assert {turn["name"] for turn in after["turns"]} >= {"waiting"}
    counted = web.metrics()
    assert counted["hocket_coordinator_restarts_total", ""] == 1
    for key, value in before.items():
        if key[0].endswith("_total"):
            assert counted[key] >= value, key
    web.program.signal(signal.SIGINT)
    assert web.program.wait() == 0, web.program.story()


def test_the_token_of_its_user_pauses_a_job(world: World) -> None:
    web = Web(world)
    job = world.job("train", "--name", "quiet", "--hold", "4", *SMALL)
    job.expect("step 4")
    assert web.token.stat().st_mode & 0o777 == 0o600
    for token, status in (("x" * 43, 401), (web.token.read_text().strip(), 200)):
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        assert web.ask("/api/pause", {"job": "quiet"}, **headers)[0] == status
    job.go_on()  # to the end of its step, where its turn ends
    world.until("quiet", "paused")
    assert world.hocket("resume", "quiet").returncode == 0
    job.finishes()


def test_a_coordinator_that_hangs_is_said_and_found_again(world: World) -> None:
    web = Web(world)
    serving = world.start(*hocket_command(), "serve", emulated=False)
    web.until("up", lambda node: node["up"])
    serving.signal(signal.SIGSTOP)
    try:
        web.until("not answering", lambda node: not node["up"])
        assert web.ask("/")[0] == 200
    finally:
        serving.signal(signal.SIGCONT)
    web.until("up again", lambda node: node["up"])


def test_a_port_that_is_taken_is_named(world: World) -> None:
    web = Web(world)
    second = world.hocket("web", "--port", str(web.port))
    assert second.returncode == 1
    assert f"port {web.port}" in second.stderr and "--port" in second.stderr


def test_a_token_that_others_can_read_stops_it_before_it_listens(world: World) -> None:
    token = world.folder / "config" / "hocket" / "web-token"
    token.parent.mkdir(parents=True)
    token.write_text("x" * 43 + "\n")
    token.chmod(0o644)
    refused = world.hocket("web", "--port", "0")
    assert refused.returncode == 1
    assert str(token) in refused.stderr and "0644" in refused.stderr
    assert "http://" not in refused.stdout


def browser() -> str:
    found = shutil.which("chromium") or shutil.which("google-chrome") or shutil.which("chromium-browser")
    assert found, "there is no browser: HOCKET_SETUP_WITH=browser ./scripts/setup installs Chromium"
    return found


def dom(world: World, web: Web) -> str:
    """What the document has become after a few of its seconds."""
    options = ["--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={world.folder / 'browser'}"]
    command = [browser(), *options, "--virtual-time-budget=3000", "--dump-dom", f"http://127.0.0.1:{web.port}/"]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE).stdout


def test_a_browser_draws_the_page(world: World) -> None:
    web = Web(world)
    job = world.job("train", "--name", "drawn", "--hold", "4", *SMALL)
    job.expect("step 4")
    web.until("a holder", lambda node: states(node) == {"drawn": "holds"})
    assert "drawn has the turn" in dom(world, web)
    job.go_on()
    job.finishes()
    world.hocket("stop", "--force")
    assert "No coordinator answers" in dom(world, web)
