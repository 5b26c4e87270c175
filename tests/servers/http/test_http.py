"""HTTP: probes, the clock, who comes in, and requests that are wrong."""

from __future__ import annotations

import socket
import ssl
import sys
import threading
from pathlib import Path

import pytest
import uvicorn
from starlette.applications import Starlette

from mayfly import QueueManager
from mayfly.admin.security.admission import Admission
from mayfly.admin.security.developer import self_signed_certificate
from mayfly.client.connection import LocalConnection
from mayfly.mqi import constants as c
from mayfly.mqi.errors import NoMessage
from mayfly.runtime import SystemClock
from mayfly.servers.addresses import ListenAddress
from mayfly.servers.budget import Budget
from mayfly.servers.http.connection import MAX_BYTES
from mayfly.servers.http.server import HttpServer
from mayfly.servers.listeners import HttpListener
from mayfly.servers.settings import TlsFiles
from mayfly.servers.status import ServerStatus, ServingState
from mayfly.testing import VirtualClock
from mayfly.verbs import requests as ask
from tests.connection.serving import AdmitEverybody
from tests.facts import PATIENCE_SECONDS
from tests.servers.http.conftest import ADMIN, APP, TOKEN, Site, Web, listening

CLOCK = "/mayfly/v1/clock"
START_MS = 1_700_000_000_123


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock(START_MS)


# The clock


def test_E4_an_administrator_moves_time_to_a_deadline_and_over_it(
    web: Web, queue_manager: QueueManager
) -> None:
    """And what is delayed comes at its moment, before the answer does (D1)."""
    with queue_manager.session() as session:
        session.put("Q1", b"x", time_to_live_ms=60_000)
        session.put("Q2", b"y", delay_ms=60_000)
        for step_ms, live, due in ((59_999, 1, 0), (1, 0, 1), (0, 0, 1)):
            assert web.ask("POST", CLOCK, {"advance_ms": step_ms}).status == 200
            assert len(list(session.browse("Q1"))) == live
            assert queue_manager.counts("Q2").live == due


def test_the_time_is_told_before_and_after(web: Web) -> None:
    first = web.ask("GET", CLOCK)
    assert (first.status, first.headers["content-type"]) == (200, "application/json")
    assert first.content == {
        "time_ms": START_MS,
        "time": "2023-11-14T22:13:20.123Z",
        "is_virtual": True,
    }
    moved = web.ask("POST", CLOCK, {"advance_ms": 877}).content
    assert (moved["time_ms"], moved["time"]) == (START_MS + 877, "2023-11-14T22:13:21.000Z")
    assert web.ask("GET", CLOCK).content == moved


def test_a_wait_ends_when_time_is_moved_past_it(web: Web, queue_manager: QueueManager) -> None:
    connection = LocalConnection(queue_manager.session(), queue_manager)
    queue = connection.call(ask.Open("Q1", c.MQOO_INPUT_SHARED)).handle
    outcomes: list[object] = []
    is_done = threading.Event()

    def on_done(outcome: object) -> None:
        outcomes.append(outcome)
        is_done.set()

    connection.begin(ask.GetAny([queue], c.MQGMO_WAIT, wait_ms=30_000), on_done)
    web.ask("POST", CLOCK, {"advance_ms": 29_999})
    assert outcomes == []
    web.ask("POST", CLOCK, {"advance_ms": 1})
    assert is_done.wait(PATIENCE_SECONDS)
    assert isinstance(outcomes[0], NoMessage)
    connection.close()


def test_time_that_goes_by_itself_is_told_and_not_moved() -> None:
    with QueueManager("QM1") as manager:
        for site in listening(manager, admission=AdmitEverybody(), admin_channel="CH"):
            told = site.web.ask("GET", CLOCK, user=None).content
            assert told["is_virtual"] is False
            refused = site.web.ask("POST", CLOCK, {"advance_ms": 1}, user=None)
            said = "QM1 has the time of its machine: only a virtual clock is moved"
            assert refused.said == (409, said, 2012)
            assert refused.content["reasonName"] == "MQRC_ENVIRONMENT_ERROR"


# Requests that are wrong


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"advance_ms": -1}, "a step of -1 ms: it is 0 to 214748364700"),
        ({"advance_ms": 214_748_364_701}, "a step of 214748364701 ms: it is 0 to 214748364700"),
        ({"advance_ms": 1.5}, "advance_ms is 1.5: it is a whole number"),
        ({"advance_ms": True}, "advance_ms is True: it is a whole number"),
        ({"advance_ms": "1"}, "advance_ms is '1': it is a whole number"),
        ({"advance_ms": 10**30}, f"a step of {10**30} ms: it is 0 to 214748364700"),
        ({}, "advance_ms is missing: it is a whole number"),
        ({"advance": 1}, "'advance' is none of advance_ms"),
        ([1], "the body is no JSON object"),
        (b"{", "the body is no JSON: Expecting property name enclosed in double quotes"),
        (b"\xff", "the body is no JSON: 'utf-8' codec can't decode byte 0xff"),
        (b"[" * 60_000, "the body is no JSON: "),
        (b"", "the body is no JSON: "),
        (b'{"\\ud800": 1}', "the body is no JSON: 'utf-8' codec can't encode character"),
    ],
)
def test_a_wrong_body_is_refused_by_its_value(web: Web, body: object, said: str) -> None:
    answer = web.ask("POST", CLOCK, body)
    status, detail, _reason = answer.said
    assert (status, detail.startswith(said)) == (400, True), detail
    assert web.ask("GET", CLOCK).content["time_ms"] == START_MS


def test_other_types_methods_paths_and_sizes(web: Web) -> None:
    form = web.ask("POST", CLOCK, b"advance_ms=1", content_type="text/plain")
    assert form.said == (415, "Content-Type is 'text/plain'; it has to be application/json", None)
    other = web.ask("PUT", CLOCK, {"advance_ms": 1})
    assert other.said == (405, "PUT is none of GET, HEAD, POST", None)
    assert other.headers["allow"] == "GET, HEAD, POST"
    assert web.ask("GET", "/mayfly/v1/clocks").said == (
        404,
        "nothing is at /mayfly/v1/clocks",
        None,
    )
    fits = b'{"advance_ms": 1}'.ljust(MAX_BYTES)
    assert web.ask("POST", CLOCK, fits).status == 200
    assert web.ask("POST", CLOCK, fits + b" ").said[0] == 413
    assert web.ask("GET", CLOCK).content["time_ms"] == START_MS + 1


def test_a_body_without_a_length_is_read_up_to_the_limit(site: Site) -> None:
    """A client that lies about nothing and never ends is answered in the midst."""
    with socket.create_connection(("127.0.0.1", site.web.port)) as client:
        client.settimeout(PATIENCE_SECONDS)
        head = f"POST {CLOCK} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        client.sendall(f"{head}Transfer-Encoding: chunked\r\n\r\n".encode())
        assert MAX_BYTES == 4 * 0x4000
        for _ in range(4):
            client.sendall(b"4000\r\n" + bytes(0x4000) + b"\r\n")
        client.sendall(b"1\r\nx\r\n")
        assert client.recv(12) == b"HTTP/1.1 413"


# Who comes in


@pytest.mark.parametrize(
    ("user", "headers", "said"),
    [
        (None, {}, "user and password are missing"),
        (("admin", ""), {}, "user and password are missing"),
        (("admin", "guessed"), {}, "user or password are refused; the log of the server says why"),
        (APP, {}, "user or password are refused; the log of the server says why"),
        (None, {"authorization": "Bearer guessed"}, "user or password are refused; "),
        (None, {"authorization": "Basic !"}, "these Basic credentials are no base64 of UTF-8"),
        (None, {"authorization": "Basic é"}, "these Basic credentials are no base64 of UTF-8"),
        (None, {"authorization": "Basic eA=="}, "Basic credentials are USER:PASSWORD"),
        (None, {"authorization": "Digest x"}, "'Digest' is neither Basic nor Bearer"),
    ],
)
def test_who_is_not_let_in_is_asked_for_other_credentials(
    guarded: Web,
    user: tuple[str, str] | None,
    headers: dict[str, str],
    said: str,
) -> None:
    answer = guarded.ask("POST", CLOCK, {"advance_ms": 1}, user=user, **headers)
    status, detail, reason = answer.said
    assert (status, detail.startswith(said), reason) == (401, True, 2035), detail
    assert answer.headers["www-authenticate"] == 'Basic realm="mayfly", charset="UTF-8"'
    assert guarded.ask("GET", CLOCK).content["time_ms"] == START_MS


def test_the_operator_comes_in_by_the_token(guarded: Web) -> None:
    answer = guarded.ask("GET", CLOCK, user=None, authorization=f"Bearer {TOKEN}")
    assert answer.status == 200


def test_a_user_who_is_no_administrator_is_told_so(
    developed: QueueManager, admission: Admission
) -> None:
    for site in listening(developed, admission=admission, admin_channel="DEV.APP.SVRCONN"):
        status, _detail, reason = site.web.ask("GET", CLOCK, user=APP).said
        assert (status, reason) == (403, 2035)
        blocked = site.web.ask("GET", CLOCK, user=ADMIN)
        assert blocked.said[0] == 403
        assert "the password is right, but user admin is blocked by" in blocked.said[1]


def test_a_server_without_the_channel_lets_nobody_in(
    developed: QueueManager, admission: Admission
) -> None:
    for site in listening(developed, admission=admission, admin_channel="NONE"):
        status, _detail, reason = site.web.ask("GET", CLOCK).said
        assert (status, reason) == (503, 2540)


def test_who_is_there_is_said_by_the_socket_and_by_no_header(queue_manager: QueueManager) -> None:
    admission = AdmitEverybody()
    forged = {"x_forwarded_for": "192.0.2.7", "x_forwarded_proto": "https", "forwarded": "for=x"}
    for site in listening(queue_manager, admission=admission, admin_channel="CH"):
        assert site.web.ask("GET", CLOCK, user=("operator", "x:ö"), **forged).status == 200
        [applicant] = admission.applicants
        assert (applicant.address, applicant.has_tls) == ("127.0.0.1", False)
        assert (applicant.user, applicant.password) == ("operator", "x:ö")
        assert (applicant.channel, applicant.queue_manager) == ("CH", "QM1")


# Probes


def probe(web: Web) -> list[tuple[int, dict[str, str]]]:
    """Ask both probes, as anybody may."""
    answers = [web.ask("GET", f"/health/{name}", user=None) for name in ("live", "ready")]
    assert {answer.headers["cache-control"] for answer in answers} == {"no-store"}
    return [(answer.status, answer.content["queue_managers"]) for answer in answers]


def test_probes_say_what_ping_says(site: Site) -> None:
    for state, live, ready in (
        (ServingState.STARTING, 200, 503),
        (ServingState.READY, 200, 200),
        (ServingState.DRAINING, 200, 503),
    ):
        site.server_status.state = state
        assert probe(site.web) == [(live, {"QM1": state}), (ready, {"QM1": state})]


def test_a_server_is_live_while_one_queue_manager_is_and_ready_while_all_are() -> None:
    with QueueManager("QM1") as one, QueueManager("QM2") as other:
        for site in listening(one, other, admission=AdmitEverybody()):
            assert [status for status, _ in probe(site.web)] == [200, 200]
            other.crash()
            assert [status for status, _ in probe(site.web)] == [200, 503]
            one.crash()
            assert probe(site.web)[0] == (503, {"QM1": "failed", "QM2": "failed"})
            assert site.web.ask("GET", CLOCK, user=None).said[0] == 503


def test_a_server_that_drains_answers_probes_alone(site: Site) -> None:
    site.server_status.state = ServingState.DRAINING
    site.listener.drain(60_000)
    assert site.web.ask("GET", CLOCK).said == (503, "the server ends", 2161)
    assert probe(site.web)[0] == (200, {"QM1": "draining"})
    site.listener.stop()
    with pytest.raises(ConnectionRefusedError):
        probe(site.web)


# The listener


def test_an_address_that_is_taken_is_named(site: Site, queue_manager: QueueManager) -> None:
    other = HttpListener(
        [queue_manager],
        AdmitEverybody(),
        ListenAddress("127.0.0.1", site.web.port),
        channel="",
        admin_channel="",
        tls=TlsFiles(),
        server_status=ServerStatus([queue_manager]),
        histories={},
    )
    said = f"cannot listen on 127.0.0.1:{site.web.port}: Address already in use"
    with pytest.raises(OSError, match=said):
        other.start()
    other.stop()


def test_what_is_not_installed_is_named(
    queue_manager: QueueManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "mayfly.servers.http.server")
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    with pytest.raises(OSError, match=r"--http needs mayfly-mq\[http\]: .*uvicorn"):
        next(listening(queue_manager, admission=AdmitEverybody()))


def test_a_new_certificate_counts_from_the_next_connection(
    queue_manager: QueueManager, tmp_path: Path
) -> None:
    def certified(*hosts: str) -> TlsFiles:
        return TlsFiles(
            *self_signed_certificate(tmp_path, ["127.0.0.1", *hosts], SystemClock().now_ms())
        )

    tls = certified()
    admission = AdmitEverybody()
    for site in listening(queue_manager, admission=admission, tls=tls):
        for host in ("one", "two"):
            site.web.tls = ssl.create_default_context(cafile=tls.certificate)
            assert site.web.ask("GET", CLOCK, user=None).status == 200
            assert certified(host) == tls
            other = Web(site.web.port, ssl.create_default_context(cafile=tls.certificate))
            with pytest.raises(ssl.SSLCertVerificationError):
                other.ask("GET", CLOCK)
            site.listener.reload()
        assert [applicant.has_tls for applicant in admission.applicants] == [True, True]


def test_a_server_that_cannot_start_says_so_and_leaves_its_port(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As where a library that it needs is broken: nobody waits for it for ever."""

    def fail(_config: uvicorn.Config) -> None:
        raise ImportError("no such loop")

    monkeypatch.setattr(uvicorn.Config, "load", fail)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = int(taken.getsockname()[1])
    with pytest.raises(OSError, match="HTTP cannot start"):
        HttpServer(Starlette(), Budget()).listen_tcp("127.0.0.1", port)
    assert [r.getMessage() for r in caplog.records if "no such loop" in r.getMessage()]
    with socket.create_server(("127.0.0.1", port)):
        pass
