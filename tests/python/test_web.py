"""`hocket web` as it is attacked and as it fails: other hosts, other pages, other users, no token, garbage, slow and
silent clients, too many of them, a coordinator that dies and comes back."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import select
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest
import test_cli
from hocket.errors import HocketError
from hocket.web import peer
from hocket.web.door import Limits
from hocket.web.token import Token
from web_world import PATIENCE, Coordinator, Web, a_job, a_turn, read_to_end

HERE = pathlib.Path(__file__).parent
MakeWeb = Callable[..., Web]


@pytest.fixture
def make_web(tmp_path: pathlib.Path) -> Iterator[MakeWeb]:
    made: list[Web] = []

    def make(**options: object) -> Web:
        made.append(Web(tmp_path, **options))
        return made[-1]

    yield make
    for web in made:
        web.close()


@pytest.fixture
def web(make_web: MakeWeb) -> Web:
    return make_web()


def writes(coordinator: Coordinator) -> list[tuple[str, dict[str, object]]]:
    """What of what it was asked changes something."""
    return [asked for asked in coordinator.asked if asked[0] in ("pause", "resume", "set") or asked[1].get("name")]


# --- reading ----------------------------------------------------------------------------------------


def test_status_is_the_coordinators_own_answer(web: Web) -> None:
    answer = web.ask("/api/status")
    assert answer.status == 200
    assert answer.json()["jobs"] == [a_job()]


def test_explain_says_why_and_who_is_unknown(web: Web) -> None:
    assert web.ask("/api/explain?job=resnet").json()["why"] == "is between two steps"
    unknown = web.ask("/api/explain?job=bert")
    assert (unknown.status, unknown.json()) == (400, {"error": "there is no job 'bert'."})
    assert web.ask("/api/explain").status == 400


def test_turns_are_told_once_and_go_on_with_the_number_given(web: Web) -> None:
    web.coordinator.turns = [a_turn(i) for i in range(3)]
    first = web.ask("/api/turns").json()
    assert [turn["seq"] for turn in first["turns"]] == [0, 1, 2]
    web.coordinator.turns.append(a_turn(3))
    then = web.ask(f"/api/turns?since={first['next']}").json()
    assert [turn["index"] for turn in then["turns"]] == [3]


def test_of_a_coordinator_with_a_long_history_only_its_last_turns_are_fetched(web: Web) -> None:
    web.coordinator.turns = [a_turn(i) for i in range(50_000)]
    turns = web.ask("/api/turns").json()["turns"]
    assert [turns[0]["index"], turns[-1]["index"]] == [49_000, 49_999]


@pytest.mark.parametrize("query", ["since=-1", "since=x", "since=1e3", "since=" + "9" * 30, "a=1&" * 20, "%%%"])
def test_a_query_that_makes_no_sense_is_refused(web: Web, query: str) -> None:
    assert web.ask(f"/api/turns?{query}").status == 400


def test_many_who_ask_at_once_are_one_question_to_the_coordinator(make_web: MakeWeb) -> None:
    web = make_web(fresh_s=3600.0)
    for _ in range(20):
        assert web.ask("/api/status").status == 200
    assert [command for command, _ in web.coordinator.asked].count("status") == 1


def test_what_is_not_there_is_named_with_what_is(web: Web) -> None:
    for path in ("/api", "/api/", "/page.html", "/../../etc/passwd", "/%2e%2e/etc/passwd", "//other/", "/metrics/"):
        answer = web.ask(path)
        assert answer.status == 404, path
        assert "/api/status" in answer.text


# --- who may not -------------------------------------------------------------------------------------


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "[::1]", "LOCALHOST", "localhost:9465", "127.0.0.1:1"])
def test_names_of_this_machine_are_answered(web: Web, host: str) -> None:
    assert web.ask("/api/status", Host=host).status == 200


@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:9465", "localhost.evil.example", "127.0.0.1.evil.example", "evil.example/localhost",
     "localhost@evil.example", "127.0.0.2", "0.0.0.0", "", "localhost:", "localhost:123456", "localhost localhost"],
)  # fmt: skip
def test_another_hosts_name_is_refused_also_for_the_page_and_metrics(web: Web, host: str) -> None:
    for path in ("/", "/metrics", "/api/status"):
        assert web.ask(path, Host=host).status in (400, 403), path
    assert web.coordinator.asked == []


def test_no_host_and_two_hosts_are_refused(web: Web) -> None:
    assert b" 400 " in web.say(b"GET / HTTP/1.1\r\n\r\n").split(b"\r\n")[0]
    assert b" 403 " in web.say(b"GET / HTTP/1.0\r\n\r\n").split(b"\r\n")[0]
    two = b"GET / HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n"
    assert b" 400 " in web.say(two).split(b"\r\n")[0]


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "https://{host}", "http://localhost:1", "null", "", "{host}"]
)
def test_a_page_from_elsewhere_may_neither_read_nor_write(web: Web, origin: str) -> None:
    origin = origin.format(host=f"127.0.0.1:{web.port}")
    assert web.ask("/api/status", Origin=origin).status == 403
    assert web.tell("pause", {"job": "resnet"}, Origin=origin).status == 403
    assert web.coordinator.asked == []


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_a_page_from_elsewhere_may_not_make_the_coordinator_work(web: Web, site: str) -> None:
    """An image or a script of another site: browsers send no Origin for these."""
    for path in ("/api/explain?job=resnet", "/metrics"):
        assert web.ask(path, **{"Sec-Fetch-Site": site}).status == 403
    assert web.coordinator.asked == []
    assert web.ask("/", **{"Sec-Fetch-Site": site}).status == 200, "a link to the page"


def test_the_page_itself_may(web: Web) -> None:
    own = f"http://127.0.0.1:{web.port}"
    assert web.ask("/api/status", Origin=own).status == 200
    assert web.tell("pause", {"job": "resnet"}, Origin=own).status == 200


def test_another_users_process_may_not_read_unless_all_may(make_web: MakeWeb, monkeypatch: pytest.MonkeyPatch) -> None:
    others = os.geteuid() + 1
    monkeypatch.setattr(peer, "user", lambda *_: others)
    answer = make_web().ask("/metrics")
    assert answer.status == 403
    assert str(others) in answer.text and "--any-user" in answer.text
    open_to_all = make_web(any_user=True)
    assert open_to_all.ask("/metrics").status == 200
    for token in ("x", open_to_all.token.read()):  # also with a token that somehow came to another user
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        assert open_to_all.ask("/api/pause", "POST", {"job": "resnet"}, **headers).status == 403


def test_whose_a_connection_is_comes_from_the_kernel(web: Web) -> None:
    with web.connect() as connection:
        assert peer.user(connection.getsockname(), connection.getpeername()) == os.geteuid()
        assert peer.user(("127.0.0.1", 1), connection.getpeername()) is None
        assert peer.user(connection.getsockname(), connection.getpeername(), (("/no/such/table", ""),)) is None
    with socket.socket(socket.AF_INET6) as connection:
        try:
            connection.connect(("::ffff:127.0.0.1", web.port))
        except OSError:  # a machine without IPv6
            return
        own = ("127.0.0.1", connection.getsockname()[1])
        assert peer.user(own, ("127.0.0.1", web.port)) == os.geteuid()


# --- writing -----------------------------------------------------------------------------------------


def test_with_the_token_a_job_is_paused_changed_and_resumed(web: Web) -> None:
    assert web.tell("pause", {"job": "resnet"}).json()["state"] == "paused"
    assert web.ask("/api/status").json()["jobs"][0]["state"] == "paused"
    assert web.tell("set", {"job": "resnet", "weight": 3, "total_steps": 7}).json()["weight"] == 3
    assert web.tell("resume", {"job": "resnet"}).json()["state"] == "idle"
    assert web.tell("policy", {"name": "srtf"}).json()["policy"] == "srtf"
    assert [command for command, _ in writes(web.coordinator)] == ["pause", "set", "resume", "policy"]


@pytest.mark.parametrize(
    "given",
    [None, "", "Bearer", "Bearer ", "Bearer x", "Basic {token}", "{token}", "Bearer {token}x", "Bearer \xff"],
)
@pytest.mark.parametrize("command", ["pause", "resume", "set", "policy"])
def test_without_the_token_nothing_is_written(web: Web, command: str, given: str | None) -> None:
    headers = {"Content_Type": "application/json"}
    if given is not None:
        headers["Authorization"] = given.format(token=web.token.read())
    answer = web.ask(f"/api/{command}", "POST", {"job": "resnet", "name": "srtf"}, **headers)
    assert answer.status == 401
    assert str(web.token.path) in answer.text
    assert web.coordinator.asked == []


def test_a_form_of_another_page_cannot_write_even_with_the_token(web: Web) -> None:
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""):
        assert web.tell("pause", {"job": "resnet"}, Content_Type=kind).status == 415
    assert web.coordinator.asked == []


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE"])
def test_writing_is_asked_with_post_only(web: Web, method: str) -> None:
    answer = web.ask("/api/pause", method)
    assert (answer.status, answer.headers["Allow"]) == (405, "POST")


@pytest.mark.parametrize("method", ["HEAD", "POST", "PUT", "DELETE", "OPTIONS", "NONSENSE"])
def test_reading_is_asked_with_get_only(web: Web, method: str) -> None:
    for path in ("/", "/metrics", "/api/status"):
        answer = web.ask(path, method)
        assert (answer.status, answer.headers["Allow"]) == (405, "GET")
    assert web.coordinator.asked == []


@pytest.mark.parametrize(
    "body",
    [[], "pause", 7, None, {}, {"job": 5}, {"job": ["resnet"]}, {"job": None}, {"job": "resnet", "force": True},
     {"job": "resnet", "path": "/other.sock"}, {"job": "resnet", "timeout_ms": 1}, {"jobs": "resnet"}],
)  # fmt: skip
def test_only_what_a_command_takes_reaches_the_coordinator(web: Web, body: object) -> None:
    assert web.tell("pause", body).status == 400
    assert web.coordinator.asked == []


@pytest.mark.parametrize("body", [b"", b"{", b"\xff", b"[" * 4000, b'{"job": "resnet"', b'{"job": NaN}'])
def test_a_body_that_is_no_json_is_refused(web: Web, body: bytes) -> None:
    head = (f"POST /api/pause HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {web.token.read()}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n").encode()  # fmt: skip
    assert b" 400 " in web.say(head + body).split(b"\r\n")[0]
    assert web.coordinator.asked == []


def test_what_the_coordinator_refuses_is_told_in_its_words(web: Web) -> None:
    answer = web.tell("pause", {"job": "bert"})
    assert (answer.status, answer.json()["error"]) == (400, "there is no job 'bert'.")


def test_another_token_holds_at_once(web: Web) -> None:
    web.token.path.unlink()
    assert web.tell("pause", {"job": "resnet"}).status == 401
    web.token.make()
    assert web.tell("pause", {"job": "resnet"}).status == 200


# --- the token file ------------------------------------------------------------------------------------


def test_the_token_is_made_once_for_its_user_only(tmp_path: pathlib.Path) -> None:
    token = Token(tmp_path / "new" / "folder" / "web-token")
    token.make()
    first = token.read()
    assert token.path.stat().st_mode & 0o777 == 0o600
    token.make()
    assert token.read() == first
    assert len(first) >= 32
    assert list(token.path.parent.iterdir()) == [token.path]


@pytest.mark.parametrize("spoil", ["others may read", "link", "folder", "short", "empty", "pipe"])
def test_a_token_that_protects_nothing_is_refused(tmp_path: pathlib.Path, spoil: str) -> None:
    token = Token(tmp_path / "web-token")
    token.make()
    good = token.path.read_text()
    if spoil == "others may read":
        token.path.chmod(0o640)
    else:
        token.path.unlink()
        if spoil == "link":
            (tmp_path / "other").write_text(good)
            (tmp_path / "other").chmod(0o600)
            token.path.symlink_to(tmp_path / "other")
        elif spoil == "folder":
            token.path.mkdir()
        elif spoil == "pipe":
            os.mkfifo(token.path, 0o600)
        else:
            token.path.write_text("secret\n" if spoil == "short" else "")
            token.path.chmod(0o600)
    assert token.read() == ""
    with pytest.raises(HocketError, match="web-token"):
        token.make()


# --- what is no request ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "said",
    [b"\x00" * 100, b"\r\n\r\n\r\n", b"hello\r\n\r\n", b"GET / HTTP/9.9\r\nHost: localhost\r\n\r\n",
     b"GET http://evil.example/ HTTP/1.1\r\nHost: localhost\r\n\r\n", b"GET * HTTP/1.1\r\nHost: localhost\r\n\r\n",
     b"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
     b"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
     b"GET / HTTP/1.1\r\nHost: localhost\r\nbad header\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" * 9,
     b"GET /\xff HTTP/1.1\r\nHost: localhost\r\n\r\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"],
)  # fmt: skip
def test_garbage_is_answered_and_nobody_else_notices(web: Web, said: bytes) -> None:
    answer = web.say(said)
    assert b" 400 " in answer.split(b"\r\n")[0] or b" 505 " in answer.split(b"\r\n")[0], answer
    assert web.ask("/api/status").status == 200


def test_requests_that_are_too_long_are_refused_with_their_limit(web: Web) -> None:
    long = b"a" * 100_000
    assert b" 431 " in web.say(b"GET /" + long).split(b"\r\n")[0]
    assert b" 431 " in web.say(b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + long).split(b"\r\n")[0]
    many = b"".join(b"X-%d: y\r\n" % i for i in range(10_000))
    assert b" 431 " in web.say(b"GET / HTTP/1.1\r\n" + many).split(b"\r\n")[0]
    post = b"POST /api/pause HTTP/1.1\r\nHost: localhost\r\n"
    assert b" 413 " in web.say(post + b"Content-Length: 100000\r\n\r\n" + long).split(b"\r\n")[0]
    chunk = b"%x\r\n%s\r\n" % (len(long), long)
    assert b" 413 " in web.say(post + b"Transfer-Encoding: chunked\r\n\r\n" + chunk).split(b"\r\n")[0]
    assert web.coordinator.asked == []


def test_one_connection_is_one_request(web: Web) -> None:
    request = b"GET /api/status HTTP/1.1\r\nHost: localhost\r\n\r\n"
    assert web.say(request + request).count(b"HTTP/1.1 200") == 1


def test_a_client_that_does_not_finish_is_told_and_closed(make_web: MakeWeb) -> None:
    web = make_web(limits=Limits(seconds=0.2))

    def told(begin: bytes) -> bytes:
        with contextlib.ExitStack() as stack:
            with web.busy():  # its time begins when it has said what it says
                connection = stack.enter_context(web.connect())
                connection.sendall(begin)
            said = b""
            with contextlib.suppress(ConnectionResetError):  # who is slow to read it is cut afterwards
                while part := connection.recv(65536):
                    said += part
            return said

    for begin in (b"", b"GET / HT", b"GET / HTTP/1.1\r\nHost: loc",
                  b"POST /api/pause HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n{"):  # fmt: skip
        assert b" 408 " in told(begin).split(b"\r\n")[0], begin


@pytest.mark.parametrize("says_goodbye", [False, True])
def test_a_client_that_takes_nothing_is_closed(make_web: MakeWeb, says_goodbye: bool) -> None:
    web = make_web(limits=Limits(seconds=0.2))
    web.coordinator.turns = [a_turn(i, reason="r" * 4000) for i in range(1000)]  # 4 MB: more than sockets hold
    with contextlib.ExitStack() as stack:
        with web.busy():  # its time begins when it has asked
            connection = stack.enter_context(web.connect())
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.sendall(b"GET /api/node HTTP/1.1\r\nHost: localhost\r\n\r\n")
            if says_goodbye:
                connection.shutdown(socket.SHUT_WR)
        hangs_up(connection)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_ends_without_a_word_also_with_connections_open(tmp_path: pathlib.Path, number: int) -> None:
    start = [sys.executable, "-c", test_cli.START.format(tests=str(HERE), python=str(HERE.parents[1] / "python"))]
    environment = os.environ | {"XDG_CONFIG_HOME": str(tmp_path)}
    with (
        subprocess.Popen(
            [*start, "web", "--port", "0"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        ) as web,
        contextlib.ExitStack() as stack,
    ):  # fmt: skip
        assert web.stdout and web.stderr
        port = int(web.stdout.readline().removeprefix("http://127.0.0.1:").partition("/")[0])
        for _ in range(3):
            stack.enter_context(socket.create_connection(("127.0.0.1", port), PATIENCE))
        served = stack.enter_context(socket.create_connection(("127.0.0.1", port), PATIENCE))
        served.sendall(b"GET /nothing HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert served.recv(1)  # so those that came before it are being served
        web.send_signal(number)
        said = web.stderr.read()
    assert (web.returncode, said) == (0, "")


def hangs_up(connection: socket.socket) -> None:
    """Waits, without reading, until the other end has given this connection up."""
    poll = select.poll()
    poll.register(connection, select.POLLHUP | select.POLLERR)
    assert poll.poll(60_000), "the server keeps a client that takes nothing"


def test_a_client_that_says_no_more_after_its_request_gets_all_of_the_answer(web: Web) -> None:
    web.coordinator.turns = [a_turn(i, reason="r" * 4000) for i in range(1000)]
    with web.connect() as connection:
        connection.sendall(b"GET /api/turns HTTP/1.1\r\nHost: localhost\r\n\r\n")
        connection.shutdown(socket.SHUT_WR)
        said = read_to_end(connection)
    assert len(json.loads(said.split(b"\r\n\r\n", 1)[1])["turns"]) == 1000


def test_clients_that_vanish_leave_nothing_behind(web: Web) -> None:
    for said in (b"", b"GET ", b"GET /api/status HTTP/1.1\r\nHost: localhost\r\n\r\n"):
        connection = web.connect()
        connection.sendall(said)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # a reset, no goodbye
        connection.close()
    assert web.ask("/api/status").status == 200


def test_when_all_connections_are_taken_another_is_told_and_later_served(make_web: MakeWeb) -> None:
    web = make_web(limits=Limits(connections=4, seconds=PATIENCE))
    silent = [web.connect() for _ in range(4)]
    try:
        for connection in silent:  # each is known to be served: it has been answered up to its end
            connection.sendall(b"GET /api/status HTTP/1.1\r\n")
        assert b" 503 " in refused_when_full(web).split(b"\r\n")[0]
    finally:
        for connection in silent:
            connection.sendall(b"Host: localhost\r\n\r\n")
            assert b" 200 " in read_to_end(connection).split(b"\r\n")[0]
            connection.close()
    assert web.ask("/api/status").status == 200


class Others:
    """Connects as other users: ``peer.user`` answers what they are."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, stack: contextlib.ExitStack) -> None:
        self._stack = stack
        self._whose: dict[int, int] = {}
        monkeypatch.setattr(peer, "user", lambda there, _: self._whose.get(there[1], os.geteuid()))

    def connect(self, web: Web, number: int = 1) -> socket.socket:
        connection = self._stack.enter_context(socket.socket())
        connection.settimeout(PATIENCE)
        connection.bind(("127.0.0.1", 0))  # its port is known before anybody can ask whose it is
        self._whose[connection.getsockname()[1]] = os.geteuid() + number
        with contextlib.suppress(ConnectionResetError):  # it has been cut already
            connection.connect(("127.0.0.1", web.port))
        return connection


@pytest.fixture
def others(monkeypatch: pytest.MonkeyPatch) -> Iterator[Others]:
    with contextlib.ExitStack() as stack:
        yield Others(monkeypatch, stack)


@pytest.mark.parametrize("any_user", [False, True])
def test_no_other_user_can_take_the_owners_places(make_web: MakeWeb, others: Others, any_user: bool) -> None:
    web = make_web(any_user=any_user, limits=Limits(seconds=PATIENCE))
    for _ in range(100):
        others.connect(web)
    assert web.ask("/api/status").status == 200
    one_more = others.connect(web)
    if any_user:
        head, said = read_to_end(one_more).split(b"\r\n\r\n", 1)
        assert b" 503 " in head and b"64 connections of uid" in said
    else:
        hangs_up(one_more)


def test_all_other_users_together_have_a_limit_too(make_web: MakeWeb, others: Others) -> None:
    web = make_web(any_user=True, limits=Limits(connections=2, others=3, seconds=PATIENCE))
    for number in (1, 1, 2):
        others.connect(web, number)
    assert b" 503 " in read_to_end(others.connect(web, 3)).split(b"\r\n")[0]
    assert web.ask("/api/status").status == 200


def test_one_that_finds_no_place_is_not_waited_for(make_web: MakeWeb) -> None:
    web = make_web(limits=Limits(connections=1, seconds=PATIENCE))
    with web.connect(), web.connect() as one_more:
        assert b" 503 " in read_to_end(one_more).split(b"\r\n")[0]
        one_more.sendall(b"GET")
        hangs_up(one_more)


def refused_when_full(web: Web) -> bytes:
    """Connections are taken in order, so one made after the others finds them there."""
    return web.say()


# --- a coordinator that fails -----------------------------------------------------------------------------


def test_a_coordinator_that_is_gone_is_said_and_found_again(web: Web) -> None:
    assert web.ask("/api/node").json()["up"] is True
    web.coordinator.dies()
    gone = web.ask("/api/node")
    assert gone.status == 200
    assert (gone.json()["up"], gone.json()["why"]) == (False, "no coordinator runs at /nowhere")
    for path in ("/api/status", "/api/explain?job=resnet", "/api/policy"):
        answer = web.ask(path)
        assert (answer.status, answer.json()["error"]) == (503, "no coordinator runs at /nowhere")
    assert web.tell("pause", {"job": "resnet"}).status == 503
    assert web.ask("/").status == 200
    assert "hocket_coordinator_up 0.0" in web.ask("/metrics").text
    web.coordinator.starts_anew()
    assert web.ask("/api/node").json()["up"] is True
    assert "hocket_coordinator_up 1.0" in web.ask("/metrics").text


@pytest.mark.parametrize(
    "trouble", [TimeoutError("no answer in 3 s"), ValueError("no Hocket"), MemoryError("no memory")]
)
def test_whatever_a_coordinator_does_is_an_answer(web: Web, trouble: Exception) -> None:
    web.coordinator.trouble = trouble
    assert web.ask("/api/node").json()["why"] == str(trouble)
    assert web.ask("/metrics").status == 200


def test_an_answer_that_is_not_understood_is_named(web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web.coordinator, "_status", lambda: {"something": "else"})
    said = web.ask("/api/node").json()
    assert said["up"] is False and "not understood" in said["why"]


def test_everything_says_that_no_other_page_may_use_it(web: Web) -> None:
    for path in ("/", "/metrics", "/api/status", "/none"):
        headers = web.ask(path).headers
        assert headers["X-Frame-Options"] == "DENY"
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Cross-Origin-Resource-Policy"] == "same-origin"
        assert "Access-Control-Allow-Origin" not in headers
