"""Hostile clients against the whole site: requests within requests, foreign hosts, cut connections.

Slow and endless clients are in ``test_http_limits``.
"""

from __future__ import annotations

import base64
import contextlib
import json
import logging
import re
import socket
import struct
from collections.abc import Iterator
from functools import partial
from itertools import product

import pytest

from mayfly import QueueManager
from mayfly.servers.http.application import is_of_this_machine
from tests.connection.serving import AdmitEverybody
from tests.facts import wait_until
from tests.servers.http.conftest import ADMIN, APP, TOKEN, Web, listening
from tests.servers.http.rest_client import RestClient
from tests.servers.http.test_http_limits import read_to_end, talking

QUEUE = "DEV.QUEUE.1"
_AUTHORIZED = b"Authorization: Basic " + base64.b64encode(b"app:app-password") + b"\r\n"
PUT = (
    b"POST /ibmmq/rest/v3/messaging/qmgr/QM1/queue/DEV.QUEUE.1/message HTTP/1.1\r\nHost: x\r\n"
    b"ibm-mq-rest-csrf-token: x\r\nContent-Type: text/plain\r\n" + _AUTHORIZED
)
LIVE = b"GET /health/live HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
#: A body that is a request: whoever takes it for one puts a message.
INNER = PUT + b"Content-Length: 8\r\n\r\nsmuggled"
FRAMINGS = (
    b"Content-Length: 4\r\nTransfer-Encoding: chunked",
    b"Transfer-Encoding: chunked\r\nContent-Length: 4",
    b"Content-Length: 4\r\nTransfer-Encoding: xchunked",
    b"Content-Length: 4\r\nTransfer-Encoding: \x0bchunked",
    b"Content-Length: 4\r\nTransfer-Encoding : chunked",
    b"Content-Length: 4\r\nTransfer-Encoding: identity, chunked",
    b"Content-Length: 4\r\n Transfer-Encoding: chunked",
    b"Transfer-Encoding: chunked, identity",
    b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity",
    b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
    b"Content-Length: 4\r\nContent-Length: 0",
    b"Content-Length: 4, 0",
    b"Content-Length: +4",
    b"Content-Length: -4",
    b"Content-Length: 0x4",
    b"Content-Length: 4 4",
    b"Content-Length: 99999999999999999999999",
    b"Content-Length:",
    b"Content-Length: 4\nTransfer-Encoding: chunked",
    b"X: y\rContent-Length: 4",
    b"X: y\x00\r\nContent-Length: 4\r\nTransfer-Encoding: chunked",
)
WRONG_CHUNKS = (
    b"zz\r\nab\r\n0\r\n\r\n",
    b"-1\r\nab\r\n0\r\n\r\n",
    b"+2\r\nab\r\n0\r\n\r\n",
    b"0x2\r\nab\r\n0\r\n\r\n",
    b"2\r\nabc\r\n0\r\n\r\n",
    b"2\r\nab0\r\n\r\n",
    b"2;\x00\r\nab\r\n0\r\n\r\n",
    b"ffffffffffffffffff\r\nab\r\n0\r\n\r\n",
    b"2\r\nab\r\n",
    b"2\r\nab\r\n0\r\nContent-Length: 5\r\nx",
)
PATHS = (
    b"/console/../../../../../../etc/passwd",
    b"/console/..%2f..%2f..%2f..%2fetc%2fpasswd",
    b"/console/%2e%2e/%2e%2e/serving.py",
    b"/console/..%5c..%5cserving.py",
    b"/console/%252e%252e%252fserving.py",
    b"/console//etc/passwd",
    b"/console/page/../serving.py",
    b"/console/serving.py",
    b"/console/index.html%00.js",
    b"/console/index.html/",
    b"/console/\\..\\serving.py",
    b"/console/%c0%ae%c0%ae/serving.py",
    b"/console/%ff",
    b"//evil.example/console/",
    b"/mayfly/v1/../../console/serving.py",
    b"/mayfly/v1/qmgr/..%2f..%2fQM1/queues",
    b"/mayfly/v1/qmgr/%ff/queues",
    b"/mayfly/v1/qmgr/QM1/queues/%ff",
    b"/ibmmq/rest/v3/messaging/qmgr/QM1/queue/%c0%af/message",
    b"/ibmmq/rest/v3/messaging/qmgr/QM1/queue/..%2f..%2fetc/message",
    b"/ibmmq/rest/v3/messaging/qmgr/%00/queue/Q/message",
    b"/health/../mayfly/v1/clock",
    b"/%",
    b"/%zz",
    b"*",
    b"http://evil.example/console/serving.py",
    b"/console/" + b"../" * 2_000,
)
HEADERS = (
    b"Authorization",
    b"Cookie",
    b"Content-Type",
    b"Accept",
    b"If-None-Match",
    b"If-Match",
    b"ibm-mq-md-expiry",
    b"ibm-mq-md-correlationId",
    b"ibm-mq-usr",
    b"Sec-Fetch-Dest",
    b"traceparent",
    b"Last-Event-ID",
)
NO_TEXT = (b"\xff\xfe", b"\x80", "ä€".encode(), b"a\x7fb", b"\xc3\x28")
_AT_ONCE = struct.pack("ii", 1, 0)


@pytest.fixture(autouse=True)
def _log_is_clean(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """No test leaves a traceback or a secret in the log."""
    with caplog.at_level(logging.DEBUG):
        yield
    assert "Traceback" not in caplog.text
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]
    for secret in (APP[1], ADMIN[1], TOKEN, "c2VjcmV0", "known-secret"):
        assert secret not in caplog.text


@pytest.fixture
def open_to_all(queue_manager: QueueManager) -> Iterator[Web]:
    """QM1 behind HTTP, which lets everybody in; app and nobody in particular may do everything."""
    assert queue_manager.mqsc(f"DEFINE QLOCAL({QUEUE}) MAXMSGL(4194304)").ok
    admission = AdmitEverybody(operators=frozenset({APP[0]}))
    for site in listening(queue_manager, admission=admission):
        yield site.web


def taken(manager: QueueManager) -> list[bytes]:
    """Return the messages that came onto the queue."""
    found = []
    with manager.session() as session:
        while message := session.get(QUEUE):
            found.append(message.body)
    return found


def said(web: Web, *parts: bytes, is_over: bool = False) -> bytes:
    """Return all that the server says to some bytes, sent in parts.

    A client that ``is_over`` sends no more: else a server that waits for the rest would wait long.
    """
    with talking(web) as client:
        try:
            for part in parts:
                client.sendall(part)
            if is_over:
                client.shutdown(socket.SHUT_WR)
        except OSError:
            # It has hung up in the midst of them.
            pass
        return read_to_end(client)


# Requests within requests


def test_a_request_that_asks_for_another_protocol_keeps_its_body(
    queue_manager: QueueManager, open_to_all: Web
) -> None:
    """Java's client asks so for HTTP/2; a proxy that knows no upgrade hands the request on."""
    chunks = b"%x\r\n%b\r\n0\r\n\r\n" % (len(INNER), INNER)
    for upgrade in (b"h2c", b"websocket", b"anything"):
        asks = PUT + b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: %b\r\n" % upgrade
        whole = asks + b"Content-Length: %d\r\n\r\n" % len(INNER)
        chunked = asks + b"Transfer-Encoding: chunked\r\n\r\n"
        for parts in (
            (whole + INNER,),
            (whole, INNER),
            (whole[:-30], whole[-30:] + INNER[:9], INNER[9:]),
            (chunked + chunks,),
            (chunked, chunks),
        ):
            answer = said(open_to_all, *parts, LIVE)
            assert re.findall(rb"HTTP/1.1 (\d+)", answer) == [b"201", b"200"], (upgrade, parts)
            assert taken(queue_manager) == [INNER], (upgrade, parts)


@pytest.mark.slow
def test_requests_that_ask_for_another_protocol_come_in_any_number(open_to_all: Web) -> None:
    """3,500 in one piece were as many calls within each other, and a traceback of 313 KB."""
    asks = LIVE.replace(b"close", b"Upgrade\r\nUpgrade: h2c")
    answer = said(open_to_all, asks * 3_500 + LIVE)
    assert re.findall(rb"HTTP/1.1 (\d+)", answer) == [b"200"] * 3_501


def test_the_heads_of_many_requests_are_not_one_that_is_too_long(open_to_all: Web) -> None:
    usual = LIVE.replace(b"Connection: close\r\n", b"")
    for asks in (usual, LIVE.replace(b"close", b"Upgrade\r\nUpgrade: h2c")):
        many = asks * (20_000 // len(asks))
        # Each piece begins and ends within a head.
        answer = said(open_to_all, many[:30], many[30:] + LIVE[:30], LIVE[30:])
        assert set(re.findall(rb"HTTP/1.1 (\d+)", answer)) == {b"200"}


def test_this_server_is_no_proxy(open_to_all: Web) -> None:
    for asked in (b"x:443", b"/health/live"):
        answer = said(open_to_all, b"CONNECT " + asked + b" HTTP/1.1\r\nHost: x\r\n\r\n" + LIVE)
        assert answer.startswith((b"HTTP/1.1 400 ", b"HTTP/1.1 404 ", b"HTTP/1.1 405 "))
        assert b"200 OK" not in answer


def test_no_framing_hides_a_request_within_another(
    queue_manager: QueueManager, open_to_all: Web
) -> None:
    """Two servers that frame a request differently see two requests where one was let through."""
    body = b"0\r\n\r\n" + INNER
    for framing in FRAMINGS:
        answer = said(open_to_all, PUT + framing + b"\r\n\r\n" + body, is_over=True)
        is_one = len(re.findall(rb"HTTP/1.1 \d+", answer)) <= 1
        assert is_one or b"HTTP/1.1 400 " in answer, framing
        assert b"smuggled" not in b"".join(taken(queue_manager)), framing


def test_a_body_in_wrong_chunks_puts_nothing(queue_manager: QueueManager, open_to_all: Web) -> None:
    head = PUT + b"Transfer-Encoding: chunked\r\n\r\n"
    assert said(open_to_all, head + b"2\r\nab\r\n0\r\n\r\n", LIVE).startswith(b"HTTP/1.1 201")
    assert taken(queue_manager) == [b"ab"]
    for chunks in WRONG_CHUNKS:
        assert b"HTTP/1.1 2" not in said(open_to_all, head + chunks, is_over=True), chunks
        assert taken(queue_manager) == [], chunks


# Paths, names, and bytes that are no text


def test_a_path_leads_to_no_file_but_those_of_the_console(open_to_all: Web) -> None:
    for path in PATHS:
        asked = b"GET %b HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n" % path
        answer = said(open_to_all, asked)
        assert re.match(rb"HTTP/1.1 (400|401|404|405|431) ", answer), (path, answer[:100])
        for found in (b"root:", b"import ", b"<!doctype", b"location: //"):
            assert found not in answer.lower(), path


def test_bytes_that_are_no_text_in_a_header_fail_nothing(open_to_all: Web) -> None:
    queue = b"/ibmmq/rest/v3/messaging/qmgr/QM1/queue/DEV.QUEUE.1/message"
    for name, value in product(HEADERS, NO_TEXT):
        for method, path in ((b"GET", b"/metrics"), (b"GET", b"/console/"), (b"POST", queue)):
            answer = said(
                open_to_all,
                b"%b %b HTTP/1.1\r\nHost: x\r\nibm-mq-rest-csrf-token: x\r\nContent-Length: 0\r\n"
                b"%b: %b\r\nConnection: close\r\n\r\n" % (method, path, name, value),
            )
            assert re.match(rb"HTTP/1.1 [234]", answer), (name, value, path, answer[:100])


def test_bytes_that_are_no_text_in_a_query_fail_nothing(open_to_all: Web) -> None:
    for query in ("%ff", "limit=%ff", "queue=%00", "a" * 5_000, "&" * 1_000, "="):
        for path in ("/mayfly/v1/qmgr/QM1/schedule", "/metrics", "/console/", "/health/live"):
            asked = f"GET {path}?{query} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
            answer = said(open_to_all, asked.encode() + _AUTHORIZED + b"\r\n")
            assert re.match(rb"HTTP/1.1 [24]", answer), (path, query)


# Other sites


@pytest.mark.parametrize(
    ("host", "is_own"),
    [
        ("localhost:9443", True),
        ("127.0.0.1:9443", True),
        ("[::1]:9443", True),
        ("LOCALHOST.", True),
        ("mq.localhost", True),
        ("10.1.2.3", True),
        ("myhost", True),
        ("", True),
        ("evil.example", False),
        ("evil.example:9443", False),
        ("127.0.0.1.evil.example", False),
        ("localhost.evil.example", False),
        ("evil.example.", False),
        ("[::1].evil.example", False),
        ("[evil.example]", False),
        ("127.0.0.1@evil.example", False),
        ("[::1", False),
        ("evil.localhost.example", False),
        ("1.2.3", False),
    ],
)
def test_a_name_of_another_site_is_no_name_of_this_machine(host: str, is_own: bool) -> None:
    assert is_of_this_machine(host.encode()) is is_own


def test_a_page_that_leads_its_own_name_here_gets_nothing(open_to_all: Web) -> None:
    """DNS rebinding: to the browser it is one site with the server."""
    for path in ("/health/live", "/console/", "/ibmmq/rest/v3/login", "/mayfly/v1/openapi.json"):
        ends = b"Connection: close\r\n\r\n"
        for hosts in (b"Host: evil.example:9443\r\n", b"Host: x\r\nHost: evil.example\r\n"):
            answer = said(open_to_all, b"GET %b HTTP/1.1\r\n" % path.encode() + hosts + ends)
            assert answer.startswith(b"HTTP/1.1 421 ")
            assert b"x-content-type-options: nosniff" in answer
            assert b"content-security-policy: default-src 'none'" in answer
    given = json.dumps({"username": APP[0], "password": APP[1]}).encode()
    head = b"POST /ibmmq/rest/v3/login HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n"
    head += b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(given)
    answer = said(open_to_all, head + given)
    assert answer.startswith(b"HTTP/1.1 421 ")
    assert b"set-cookie" not in answer


def test_no_other_site_is_allowed_to_ask(developed: QueueManager, guarded: Web) -> None:
    """A preflight is refused: so a browser sends no header of its own, and no JSON."""
    asked = {
        "origin": "https://evil.example",
        "access_control_request_method": "POST",
        "access_control_request_headers": "ibm-mq-rest-csrf-token, content-type",
    }
    rest = RestClient(guarded)
    for path in (rest.queue(QUEUE), "/mayfly/v1/clock", "/console/", "/metrics"):
        for user in (None, APP):
            answer = guarded.ask("OPTIONS", path, user=user, **asked)
            assert answer.status in (401, 403, 404, 405)
            assert not [name for name in answer.headers if name.startswith("access-control-")]
    # What a form can send without a preflight, with the credentials of the browser.
    for media_type in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data"):
        form = guarded.ask(
            "POST", rest.queue(QUEUE), b"x", user=APP, content_type=media_type, origin="null"
        )
        assert form.status == 403
        clock = guarded.ask(
            "POST", "/mayfly/v1/clock", b'{"advance_ms": 1}', content_type=media_type
        )
        assert clock.status == 415
    assert taken(developed) == []


# Connections that are cut


def test_a_reset_in_each_phase_leaves_nothing_behind(
    queue_manager: QueueManager, open_to_all: Web
) -> None:
    """Before, in and behind the head; in the body; while it waits; in the midst of the answer."""
    with queue_manager.session() as session:
        session.put(QUEUE, b"kept" * 500_000, format_name="MQSTR")
    get = b"GET" + PUT[4:] + b"\r\n"
    wait = b"DELETE" + PUT[4:].replace(b"/message ", b"/message?wait=60000&messageId=" + b"0" * 47)
    wait = wait.replace(b"0" * 47, b"0" * 47 + b"1 ") + b"\r\n"
    phases = [b"", b"POST /ibm", PUT, PUT + b"Content-Length: 9\r\n\r\n"]
    phases += [PUT + b"Content-Length: 9\r\n\r\nhalf", get, get + get, wait]
    phases.append(PUT + b"Transfer-Encoding: chunked\r\n\r\n4\r\nha")
    for _ in range(3):
        for sent in phases:
            with talking(open_to_all, receive_bytes=4_096) as client:
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE)
                client.sendall(sent)
    wait_until(lambda: not queue_manager.mqsc("DISPLAY CHSTATUS(*)").rows)
    opened = f"DISPLAY QSTATUS({QUEUE})"
    wait_until(lambda: queue_manager.mqsc(opened).rows[0]["IPPROCS"] == 0)
    assert said(open_to_all, LIVE).startswith(b"HTTP/1.1 200 ")
    assert taken(queue_manager) == [b"kept" * 500_000]


#: A request that any client may send, and that is no probe.
_DESCRIBE = b"GET /mayfly/v1/openapi.json HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"


def _is_answered(web: Web, status: bytes) -> bool:
    return said(web, _DESCRIBE).startswith(b"HTTP/1.1 " + status)


def test_connections_beyond_the_limit_are_refused_and_others_live(
    queue_manager: QueueManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mayfly.servers.http.server.CONNECTIONS", 20)
    for site in listening(queue_manager, admission=AdmitEverybody()):
        web = site.web
        with web.connected() as before:
            assert before.ask("GET", "/mayfly/v1/openapi.json", user=None).status == 200
            address = "127.0.0.1", web.port
            idle = [socket.create_connection(address) for _ in range(30)]
            wait_until(partial(_is_answered, web, b"503"))
            for each in idle:
                each.close()
            wait_until(partial(_is_answered, web, b"200"))
            assert before.ask("GET", "/mayfly/v1/openapi.json", user=None).status == 200


def test_probes_have_places_of_their_own(
    queue_manager: QueueManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half a request on more connections than there are places, those of probes included."""
    monkeypatch.setattr("mayfly.servers.http.server.CONNECTIONS", 20)
    monkeypatch.setattr("mayfly.servers.http.server.PROBING", 5)
    ready = LIVE.replace(b"/live", b"/ready")
    for site in listening(queue_manager, admission=AdmitEverybody()):
        web = site.web
        half = [socket.create_connection(("127.0.0.1", web.port)) for _ in range(40)]
        for each in half:
            with contextlib.suppress(OSError):
                each.sendall(b"GET /health/live HTTP/1.1\r\nHost:")
        wait_until(partial(_is_answered, web, b"503"))
        for probe in (LIVE, ready) * 10:
            assert said(web, probe).startswith(b"HTTP/1.1 200 ")
        # Those that may only probe were moved out by others; those with a place have it still.
        assert b"".join(_what_comes(each) for each in half[:20]) == b""
        for each in half[:2]:
            each.close()
        wait_until(partial(_is_answered, web, b"200"))
        for each in half:
            each.close()


def test_a_connection_that_may_only_probe_moves_up(
    queue_manager: QueueManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mayfly.servers.http.server.CONNECTIONS", 1)
    for site in listening(queue_manager, admission=AdmitEverybody()):
        first = socket.create_connection(("127.0.0.1", site.web.port))
        first.sendall(b"GET")
        with site.web.connected() as other:
            assert other.ask("GET", "/health/live", user=None).status == 200
            first.close()
            wait_until(partial(_may_ask, other))
            assert other.ask("GET", "/health/live", user=None).status == 200


def _may_ask(web: Web) -> bool:
    with contextlib.suppress(AssertionError):
        # 503 is no answer that the description knows.
        return web.ask("GET", "/mayfly/v1/openapi.json", user=None).status == 200
    return False


def _what_comes(client: socket.socket) -> bytes:
    """Return what has come, without waiting for it."""
    client.setblocking(False)
    with contextlib.suppress(BlockingIOError, ConnectionResetError):
        return client.recv(100)
    return b""


def test_no_secret_of_a_request_is_in_the_log(
    guarded: Web, caplog: pytest.LogCaptureFixture
) -> None:
    """Wherever a client puts one, also where none belongs."""
    secret = "known-secret"
    basic = base64.b64encode(f"app:{secret}".encode()).decode()
    for path in ("/metrics", "/mayfly/v1/clock", "/ibmmq/rest/v3/login", "/console/x", "/nowhere"):
        for headers in (
            {"authorization": f"Bearer {secret}"},
            {"authorization": f"Basic {basic}"},
            {"authorization": f"Digest {secret}"},
            {"cookie": f"LtpaToken2={secret}"},
            {"ibm_mq_rest_csrf_token": secret},
        ):
            guarded.ask("GET", f"{path}?token={secret}&password={secret}", user=None, **headers)
    for body in ({"username": "app", "password": secret}, {"password": secret}, [secret]):
        answer = guarded.ask("POST", "/ibmmq/rest/v3/login", body, user=None)
        assert secret not in json.dumps(answer.content)
    said(guarded, f"GET /?{secret} HTTP/9.9\r\n{secret}\r\n\r\n".encode())
    assert caplog.records
    assert secret not in caplog.text
