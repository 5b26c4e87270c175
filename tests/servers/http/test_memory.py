"""Bodies and answers in memory: who may put is asked first, and long ones wait for room."""

from __future__ import annotations

import contextlib
import gc
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http import HTTPStatus

import pytest
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from mayfly import QueueManager
from mayfly.admin.security.admission import Admission
from mayfly.mqi import reasons as rc
from mayfly.servers.budget import Budget
from tests.connection.serving import AdmitEverybody
from tests.facts import wait_until
from tests.servers.http.conftest import Site, Web, listening
from tests.servers.http.rest_client import RestClient, error_of
from tests.servers.http.test_http_limits import PUT, read_to_end, talking

LIMIT_BYTES = 2_000_000
LONG = b"a" * 900_000
_APP = b"Authorization: Basic YXBwOmFwcC1wYXNzd29yZA==\r\n"


@pytest.fixture
def budget() -> Budget:
    return Budget(LIMIT_BYTES)


@pytest.fixture
def narrow(queue_manager: QueueManager, budget: Budget) -> Iterator[Web]:
    """``QM1`` behind HTTP, for which messages in memory have 2 MB."""
    assert queue_manager.mqsc("DEFINE QLOCAL(Q1)").ok
    for site in listening(queue_manager, admission=AdmitEverybody(), budget=budget):
        yield site.web
    assert (budget.left_bytes, budget.is_waited_for) == (LIMIT_BYTES, False)


def begun(web: Web, stack: contextlib.ExitStack, budget: Budget, count: int) -> socket.socket:
    """Send a long put but for its last byte, the one of this number that has come in part."""
    client = stack.enter_context(talking(web))
    client.sendall(PUT + b"Connection: close\r\nContent-Length: %d\r\n\r\n" % len(LONG) + LONG[1:])
    wait_until(lambda: budget.left_bytes == LIMIT_BYTES - count * len(LONG))
    return client


def test_a_request_that_is_answered_leaves_nothing_for_the_garbage_collector(web: Web) -> None:
    """Else a collection would cost every request a third of its time."""

    def kept_count() -> int:
        return sum(isinstance(each, RequestResponseCycle) for each in gc.get_objects())

    with web.connected() as client:
        client.ask("GET", "/health/live")
        gc.collect()
        gc.disable()
        try:
            before = kept_count()
            for _ in range(50):
                assert client.ask("GET", "/health/live").status == HTTPStatus.OK
            # The one of the last request stays until the next one begins.
            assert kept_count() <= before + 1
        finally:
            gc.enable()


def is_put(client: socket.socket) -> bool:
    """Send the last byte; return whether the message was put."""
    client.sendall(LONG[:1])
    return read_to_end(client).startswith(b"HTTP/1.1 201 ")


# Who may put


@pytest.mark.parametrize("kind", ["queue/Q.OF.OTHERS", "topic/of/others"])
def test_C7_a_user_without_the_authority_is_refused_before_the_body_comes(
    developed: QueueManager, guarded: Web, kind: str
) -> None:
    """The body is neither asked for nor waited for."""
    assert developed.mqsc("DEFINE QLOCAL(Q.OF.OTHERS)").ok
    put = PUT.replace(b"queue/Q1", kind.encode()) + _APP + b"Connection: close\r\n"
    for framing in (b"Content-Length: 4000000", b"Transfer-Encoding: chunked"):
        for expects in (b"Expect: 100-continue\r\n", b""):
            with talking(guarded) as client:
                client.sendall(put + expects + framing + b"\r\n\r\n")
                assert read_to_end(client).startswith(b"HTTP/1.1 403 ")


def test_C6_a_queue_that_is_altered_while_the_body_comes_is_opened_again(
    developed: QueueManager, guarded: Web
) -> None:
    assert developed.mqsc("DEFINE QALIAS(DEV.ALIAS) TARGET(DEV.QUEUE.1)").ok
    put = PUT.replace(b"/Q1/", b"/DEV.ALIAS/") + _APP + b"Content-Length: 5\r\n"
    with talking(guarded) as client:
        client.sendall(put + b"Expect: 100-continue\r\nConnection: close\r\n\r\n")
        assert client.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
        assert developed.mqsc("ALTER QALIAS(DEV.ALIAS) TARGET(DEV.QUEUE.2)").ok
        client.sendall(b"Hello")
        assert read_to_end(client).startswith(b"HTTP/1.1 201 ")
    assert developed.counts("DEV.QUEUE.1").live == 0
    assert developed.counts("DEV.QUEUE.2").live == 1


def test_C5_a_queue_that_is_inhibited_while_the_body_comes_takes_nothing(
    developed: QueueManager, guarded: Web
) -> None:
    put = PUT.replace(b"/Q1/", b"/DEV.QUEUE.1/") + _APP + b"Content-Length: 5\r\n"
    with talking(guarded) as client:
        client.sendall(put + b"Expect: 100-continue\r\nConnection: close\r\n\r\n")
        assert client.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
        assert developed.mqsc("ALTER QLOCAL(DEV.QUEUE.1) PUT(DISABLED)").ok
        client.sendall(b"Hello")
        assert read_to_end(client).startswith(b"HTTP/1.1 405 ")
    assert developed.counts("DEV.QUEUE.1").live == 0


# Room


def test_a_long_body_waits_for_room_and_is_put_then(
    queue_manager: QueueManager, narrow: Web, budget: Budget
) -> None:
    rest = RestClient(narrow, user=None)
    with contextlib.ExitStack() as stack, ThreadPoolExecutor(1) as threads:
        slow = [begun(narrow, stack, budget, count) for count in (1, 2)]
        late = threads.submit(rest.put, "Q1", LONG.decode())
        wait_until(lambda: budget.is_waited_for)
        # Short messages of others do not wait.
        assert rest.put("Q1", "short").status == 201
        assert all(is_put(client) for client in slow)
        assert late.result().status == 201
    assert queue_manager.curdepth("Q1") == 4


@pytest.mark.parametrize("framing", ["a length", "chunks"])
def test_a_body_that_waits_too_long_is_refused_with_MQRC_RESOURCE_PROBLEM(
    queue_manager: QueueManager,
    narrow: Web,
    budget: Budget,
    framing: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """503: it may come again. In chunks its length is not known: it counts as the longest."""
    monkeypatch.setattr("mayfly.servers.http.connection.WAIT_SECONDS", 0.05)
    rest = RestClient(narrow, user=None)
    chunked = PUT + b"Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n1\r\na\r\n0\r\n\r\n"
    with contextlib.ExitStack() as stack:
        begun(narrow, stack, budget, 1)
        begun(narrow, stack, budget, 2)
        if framing == "chunks":
            with talking(narrow) as client:
                client.sendall(chunked)
                assert read_to_end(client).startswith(b"HTTP/1.1 503 ")
        else:
            status, _number, reason, said = error_of(rest.put("Q1", LONG.decode()))
            assert (status, reason) == (503, rc.MQRC_RESOURCE_PROBLEM)
            assert "send it again" in said
    wait_until(lambda: budget.left_bytes == LIMIT_BYTES)
    with talking(narrow) as client:
        client.sendall(chunked)
        assert read_to_end(client).startswith(b"HTTP/1.1 201 ")
    assert queue_manager.curdepth("Q1") == 1


def test_a_request_that_waits_for_room_has_its_own_time_afterwards(
    queue_manager: QueueManager,
    narrow: Web,
    budget: Budget,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The wait is not the time of the client."""
    with contextlib.ExitStack() as stack, ThreadPoolExecutor(1) as threads:
        slow = [begun(narrow, stack, budget, count) for count in (1, 2)]
        # For requests from now on.
        monkeypatch.setattr("mayfly.servers.http.server.REQUEST_SECONDS", 1.0)
        late = threads.submit(RestClient(narrow, user=None).put, "Q1", LONG.decode())
        wait_until(lambda: budget.is_waited_for)
        with talking(narrow) as silent:
            # One that is not waiting is told that it is late, and the other is waiting still.
            assert read_to_end(silent).startswith(b"HTTP/1.1 408 ")
        assert budget.is_waited_for
        assert all(is_put(client) for client in slow)
        assert late.result().status == 201
    assert queue_manager.curdepth("Q1") == 3


def test_a_body_that_would_never_fit_is_refused_by_its_reason_code(narrow: Web) -> None:
    refused = RestClient(narrow, user=None).put("Q1", "x" * (LIMIT_BYTES + 1))
    assert error_of(refused)[:3] == (413, "MQWB0303E", rc.MQRC_MSG_TOO_BIG_FOR_CHANNEL)


def test_clients_that_do_not_read_are_given_no_more_than_there_is_room_for_together(
    queue_manager: QueueManager, narrow: Web, budget: Budget
) -> None:
    with queue_manager.session() as session:
        session.put("Q1", b"x" * 3_500_000, format_name="MQSTR")
    get = b"GET" + PUT[4:] + b"Connection: close\r\n\r\n"
    with contextlib.ExitStack() as stack:
        deaf = []
        for _ in range(12):
            deaf.append(stack.enter_context(talking(narrow, receive_bytes=4_096)))
            deaf[-1].sendall(get)
        wait_until(lambda: budget.is_waited_for)
        assert budget.left_bytes > -2 * 3_500_000
        with ThreadPoolExecutor(len(deaf)) as threads:
            for answer in threads.map(read_to_end, deaf):
                assert answer.startswith(b"HTTP/1.1 200 ")
                assert answer.count(b"x") >= 3_500_000


def test_who_puts_by_one_door_waits_for_the_room_of_another(
    queue_manager: QueueManager, admission: Admission, budget: Budget
) -> None:
    """All doors have one budget: here two of HTTP."""
    assert queue_manager.mqsc("DEFINE QLOCAL(Q1)").ok
    everybody = AdmitEverybody()
    sites: list[Site] = []
    with contextlib.ExitStack() as stack, ThreadPoolExecutor(1) as threads:
        for _ in range(2):
            doors = listening(queue_manager, admission=everybody, budget=budget)
            stack.callback(doors.close)  # type: ignore[attr-defined]  # a generator
            sites.append(next(doors))
        slow = [begun(sites[0].web, stack, budget, count) for count in (1, 2)]
        late = threads.submit(RestClient(sites[1].web, user=None).put, "Q1", LONG.decode())
        wait_until(lambda: budget.is_waited_for)
        assert all(is_put(client) for client in slow)
        assert late.result().status == 201
