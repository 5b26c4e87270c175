"""Slow, endless and wrong clients of HTTP; the headers that all answers have."""

from __future__ import annotations

import select
import socket
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from mayfly import QueueManager
from mayfly.admin.security.admission import Admission
from mayfly.servers.http.server import HEAD_BYTES, MAX_HEADERS
from tests.facts import PATIENCE_SECONDS
from tests.servers.http.conftest import APP, Site, Web, listening
from tests.servers.http.rest_client import RestClient, error_of

LIVE = b"GET /health/live HTTP/1.1\r\nHost: x\r\n"
PUT = (
    b"POST /ibmmq/rest/v3/messaging/qmgr/QM1/queue/Q1/message HTTP/1.1\r\nHost: x\r\n"
    b"ibm-mq-rest-csrf-token: x\r\nContent-Type: text/plain\r\n"
)
TOO_LONG, TOO_SLOW = b"HTTP/1.1 431 ", b"HTTP/1.1 408 "


@contextmanager
def talking(web: Web, receive_bytes: int | None = None) -> Iterator[socket.socket]:
    """Have a connection for a block."""
    with socket.socket() as client:
        if receive_bytes is not None:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        client.settimeout(PATIENCE_SECONDS)
        client.connect(("127.0.0.1", web.port))
        yield client


def read_to_end(client: socket.socket) -> bytes:
    """Return all that comes until the server closes the connection."""
    found = b""
    try:
        while part := client.recv(65_536):
            found += part
    except ConnectionResetError:
        # It has closed while bytes of ours were on their way.
        pass
    return found


def is_refused(found: bytes, status: bytes) -> bool:
    """Tell whether an answer has a status, or was lost as the client was still sending."""
    return found[: len(status)] in (status, b"")


def send_endlessly(client: socket.socket, part: bytes) -> None:
    """Send the same bytes until the server wants no more: 64 MiB at most."""
    try:
        for _ in range(64 * 2**20 // len(part)):
            client.sendall(part)
            if select.select([client], [], [], 0)[0]:
                return
    except (ConnectionResetError, BrokenPipeError):
        return
    pytest.fail("the server reads on for ever")


# Heads


@pytest.mark.parametrize(
    "head",
    [
        LIVE + b"x: " + b"y" * HEAD_BYTES + b"\r\n\r\n",
        b"GET /" + b"y" * HEAD_BYTES + b" HTTP/1.1\r\nHost: x\r\n\r\n",
        LIVE + b"x: y\r\n" * MAX_HEADERS + b"\r\n",
    ],
)
def test_a_head_that_is_too_long_is_refused(web: Web, head: bytes) -> None:
    with talking(web) as client:
        client.sendall(head)
        assert is_refused(read_to_end(client), TOO_LONG)


def test_the_longest_head_is_taken(web: Web) -> None:
    with talking(web) as client:
        client.sendall(LIVE + b"x: y\r\n" * (MAX_HEADERS - 2) + b"Connection: close\r\n\r\n")
        assert read_to_end(client).startswith(b"HTTP/1.1 200 ")
        many = LIVE + b"Connection: close\r\nx: "
    with talking(web) as client:
        client.sendall(many + b"y" * (HEAD_BYTES - 200) + b"\r\n\r\n")
        assert read_to_end(client).startswith(b"HTTP/1.1 200 ")


def test_a_head_without_end_is_refused(web: Web) -> None:
    with talking(web) as client:
        client.sendall(LIVE + b"x: ")
        send_endlessly(client, b"y" * 1_000)
        assert is_refused(read_to_end(client), TOO_LONG)


def test_a_silent_client_is_told_that_it_is_late(
    queue_manager: QueueManager, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mayfly.servers.http.server.REQUEST_SECONDS", 0.01)
    for sent in (b"", b"GET /health", LIVE, PUT + b"Content-Length: 5\r\n\r\nab"):
        with talking(site.web) as client:
            client.sendall(sent)
            found = read_to_end(client)
            assert is_refused(found, TOO_SLOW) if sent else found.startswith(TOO_SLOW)
    assert queue_manager.counts("Q1").live == 0


def test_a_connection_that_goes_idle_is_closed(
    queue_manager: QueueManager, admission: Admission, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mayfly.servers.http.server.IDLE_SECONDS", 0.01)
    for site in listening(queue_manager, admission=admission):
        with talking(site.web) as client:
            client.sendall(LIVE + b"\r\n")
            assert read_to_end(client).startswith(b"HTTP/1.1 200 ")


def test_a_client_that_does_not_read_its_answer_is_given_up(
    developed: QueueManager, admission: Admission, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer is longer than the buffers between; nothing of it is read."""
    monkeypatch.setattr("mayfly.servers.http.server.IDLE_SECONDS", 0.01)
    assert developed.mqsc(
        "ALTER QMGR MAXMSGL(104857600)\nALTER QLOCAL(DEV.QUEUE.1) MAXMSGL(104857600)"
    ).ok
    with developed.session() as session:
        session.put("DEV.QUEUE.1", b"x" * (32 * 2**20), format_name="MQSTR")
    for site in listening(developed, admission=admission):
        with talking(site.web, receive_bytes=4_096) as client:
            client.sendall(
                b"GET /ibmmq/rest/v3/messaging/qmgr/QM1/queue/DEV.QUEUE.1/message HTTP/1.1\r\n"
                b"Host: x\r\nAuthorization: Basic YXBwOmFwcC1wYXNzd29yZA==\r\n\r\n"
            )
            poll = select.poll()
            poll.register(client, 0)
            [(_, event)] = poll.poll(PATIENCE_SECONDS * 1_000)
            assert event & select.POLLERR


# Bodies


@pytest.mark.parametrize("framing", [b"1;" + b"x" * 30_000 + b"\r\na\r\n", b"5" + b"0" * 9])
def test_endless_framing_of_a_body_is_refused(web: Web, framing: bytes) -> None:
    with talking(web) as client:
        client.sendall(PUT + b"Authorization: Basic YWRtaW46\r\nTransfer-Encoding: chunked\r\n\r\n")
        send_endlessly(client, framing)
        assert not read_to_end(client).startswith(b"HTTP/1.1 2")


def test_endless_headers_behind_a_body_are_refused(web: Web, queue_manager: QueueManager) -> None:
    with talking(web) as client:
        client.sendall(PUT + b"Authorization: Basic YWRtaW46\r\nTransfer-Encoding: chunked\r\n\r\n")
        client.sendall(b"1\r\na\r\n0\r\n")
        send_endlessly(client, b"x: y\r\n" * 100)
        assert is_refused(read_to_end(client), TOO_LONG)
    assert queue_manager.counts("Q1").live == 0


def test_MAXMSGL_of_the_channel_limits_bodies(developed: QueueManager, guarded: Web) -> None:
    assert developed.mqsc("ALTER CHANNEL(DEV.APP.SVRCONN) CHLTYPE(SVRCONN) MAXMSGL(10)").ok
    rest = RestClient(guarded)
    assert rest.put("DEV.QUEUE.1", "x" * 10).status == 201
    said = "the body has more than 10 bytes"
    for headers in ({}, {"expect": "100-continue"}):
        refused = rest.put("DEV.QUEUE.1", "x" * 11, **headers)
        assert error_of(refused) == (413, "MQWB0303E", 2218, said)


def test_a_body_is_asked_for_when_its_user_is_let_in(guarded: Web) -> None:
    """A client that expects 100-continue sends a body neither in vain nor for nothing."""
    put = PUT.replace(b"/Q1/", b"/DEV.QUEUE.1/")
    put += b"Content-Length: 5\r\nExpect: 100-continue\r\nConnection: close\r\n"
    with talking(guarded) as client:
        client.sendall(put + b"Authorization: Basic YXBwOmFwcC1wYXNzd29yZA==\r\n\r\n")
        assert client.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
        client.sendall(b"Hello")
        assert read_to_end(client).startswith(b"HTTP/1.1 201 ")
    with talking(guarded) as client:
        client.sendall(put + b"\r\n")
        assert client.recv(13) == b"HTTP/1.1 401 "


def test_a_refusal_reaches_a_client_that_is_still_sending(guarded: Web) -> None:
    rest = RestClient(guarded, user=None)
    assert error_of(rest.put("DEV.QUEUE.1", "x" * 10_000_000))[0] == 401


# Requests that are no HTTP, and what they all are answered with


@pytest.mark.parametrize(
    "sent",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GET\r\n\r\n",
        b"GET /\xff HTTP/1.1\r\nHost: x\r\n\r\n",
        LIVE + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\nab",
        LIVE + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        LIVE + b"a b: c\r\n\r\n",
    ],
)
def test_what_is_no_request_is_refused(web: Web, sent: bytes) -> None:
    with talking(web) as client:
        client.sendall(sent)
        found = read_to_end(client)
    assert found.startswith(b"HTTP/1.1 400 ")
    assert b"x-content-type-options: nosniff" in found


def test_every_answer_is_guarded_and_names_no_server(guarded: Web) -> None:
    rest = RestClient(guarded)
    answers = [
        rest.put("DEV.QUEUE.1"),
        rest.get("DEV.QUEUE.1"),
        rest.get("DEV.QUEUE.1"),
        rest.get("NONE"),
        rest.list("DEV.QUEUE.1"),
        guarded.ask("GET", "/health/live", user=None),
        guarded.ask("GET", "/mayfly/v1/clock"),
        guarded.ask("GET", "/mayfly/v1/clock", user=APP),
        guarded.ask("GET", "/nothing"),
    ]
    assert {a.status for a in answers} == {200, 201, 204, 401, 404}
    for answer in answers:
        headers = answer.headers
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"
        assert headers["cache-control"] == "no-store"
        policy = headers["content-security-policy"]
        assert policy.startswith("default-src 'none'; ")
        assert "unsafe" not in policy
        assert "server" not in headers
        assert "uvicorn" not in str(headers).lower()


def test_requests_in_a_row_are_answered_in_a_row(web: Web) -> None:
    """All are sent before the first is answered."""
    with talking(web) as client:
        live = LIVE + b"\r\n"
        client.sendall(
            live + live.replace(b"/live", b"/ready") + LIVE + b"Connection: close\r\n\r\n"
        )
        assert read_to_end(client).count(b"HTTP/1.1 200 OK") == 3
