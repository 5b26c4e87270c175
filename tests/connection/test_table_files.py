"""Channel tables on web servers: fetched each time, bounded, and refused with their URL."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from mayfly import MQError
from mayfly.client.connection import ccdt
from mayfly.client.connection.routes import routes

Answer = Callable[[BaseHTTPRequestHandler], None]


class Web(ThreadingHTTPServer):
    """A web server that does what a test says, and notes what it was asked."""

    daemon_threads = True
    answer: Answer
    asked: list[tuple[str, str | None]]


class Handler(BaseHTTPRequestHandler):
    server: Web

    def do_GET(self) -> None:
        self.server.asked.append((self.path, self.headers["Authorization"]))
        self.server.answer(self)

    def log_message(self, *_said: Any) -> None:
        """Nobody reads it."""


@pytest.fixture
def web() -> Iterator[Web]:
    with Web(("127.0.0.1", 0), Handler) as server:
        server.asked = []
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def table(host: str, weight: int = 0) -> bytes:
    row = {
        "name": "CH",
        "type": "clientConnection",
        "clientConnection": {"connection": [{"host": host}], "queueManager": "QM1"},
        "connectionManagement": {"clientWeight": weight},
    }
    return json.dumps({"channel": [row]}).encode()


def sends(content: bytes, status: int = 200, **headers: str) -> Answer:
    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(status)
        for name, value in {"Content-Length": str(len(content)), **headers}.items():
            handler.send_header(name, value)
        handler.end_headers()
        handler.wfile.write(content)

    return answer


def url_of(web: Web, user: str = "") -> str:
    return f"http://{user}127.0.0.1:{web.server_port}/ccdt.json"


def hosts(url: str) -> list[str]:
    found = routes("QM1", environment={"MQCCDTURL": url})
    assert found is not None
    return [str(route.endpoint) for route in found]


def refusal(url: str) -> MQError:
    with pytest.raises(MQError) as raised:
        hosts(url)
    return raised.value


def test_a_table_comes_from_a_web_server_and_is_fetched_for_each_connection(web: Web) -> None:
    web.answer = sends(table("one"))
    assert hosts(url_of(web)) == ["CH/TCP/one(1414)"]
    web.answer = sends(table("two"))
    assert hosts(url_of(web)) == ["CH/TCP/two(1414)"]
    assert web.asked == [("/ccdt.json", None)] * 2


def test_user_and_password_of_the_url_are_sent_and_never_shown(web: Web) -> None:
    web.answer = sends(table("one"))
    assert hosts(url_of(web, "anna:p%40ss@")) == ["CH/TCP/one(1414)"]
    assert web.asked == [("/ccdt.json", "Basic YW5uYTpwQHNz")]
    web.answer = sends(b"", 401)
    error = refusal(url_of(web, "anna:p%40ss@"))
    assert (error.reason, "401" in error.detail) == (2600, True)
    assert "p%40ss" not in str(error)


def test_a_server_that_is_redirected_to_has_no_password(web: Web) -> None:
    def answer(handler: BaseHTTPRequestHandler) -> None:
        if handler.path == "/ccdt.json":
            sends(b"", 302, Location="/moved.json")(handler)
        else:
            sends(table("moved"))(handler)

    web.answer = answer
    assert hosts(url_of(web, "anna:secret@")) == ["CH/TCP/moved(1414)"]
    assert [path for path, shown in web.asked if shown is None] == ["/moved.json"]


@pytest.mark.parametrize(
    ("content", "status", "reason", "said"),
    [
        (b"", 404, 2600, "404"),
        (b"", 500, 2600, "500"),
        (b"<html>", 200, 2278, "is no JSON"),
        (b"AMQR\0\0\0\1", 200, 2278, "binary table"),
        (b'{"channels": []}', 200, 2278, "channel: is missing"),
        (b"[" * (ccdt.MAX_BYTES + 1), 200, 2600, "more than 4,194,304 bytes"),
    ],
    ids=["missing", "broken", "HTML", "binary", "key", "long"],
)
def test_an_answer_that_is_no_table_is_named_with_its_url(
    web: Web, content: bytes, status: int, reason: int, said: str
) -> None:
    web.answer = sends(content, status)
    error = refusal(url_of(web))
    assert (error.reason, said in error.detail) == (reason, True), error
    assert url_of(web) in error.detail


def test_a_table_without_the_queue_manager_is_2058(web: Web) -> None:
    web.answer = sends(table("one").replace(b"QM1", b"QM2"))
    assert refusal(url_of(web)).reason == 2058


def test_nobody_who_listens_is_2600() -> None:
    with Web(("127.0.0.1", 0), Handler) as server:
        url = url_of(server)
    assert refusal(url).reason == 2600


def test_a_server_that_drips_is_given_up(web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each byte comes in time, the table never."""
    monkeypatch.setattr(ccdt, "PATIENCE_SECONDS", 0.1)
    is_over = threading.Event()

    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.end_headers()
        while not is_over.wait(0.005):
            handler.wfile.write(b" ")

    web.answer = answer
    error = refusal(url_of(web))
    is_over.set()
    # On a busy machine a byte may be late as well.
    assert error.reason == 2600
    assert any(said in error.detail for said in ("takes longer than", "timed out"))
