"""SHARECNV: conversations of a process share a socket, and neither block nor outlive each other."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace

import pytest

from mayfly import QueueManager, jms, pymqi
from mayfly.admin.security.applicant import Admitted
from mayfly.client.connection.endpoint import Address
from mayfly.client.connection.remote import RemoteConnection
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import MQError
from mayfly.verbs import requests as ask
from tests.connection.scene import BOTH_WAYS, JOIN_SECONDS, put
from tests.connection.serving import HOST, Served, serving
from tests.facts import wait_until

SHARECNV = 3
TERMS = Admitted(user="", share_conversations=SHARECNV)


@pytest.fixture
def served(queue_manager: QueueManager) -> Iterator[Served]:
    """``QM1`` with ``Q1``, by a channel with SHARECNV(3)."""
    assert queue_manager.mqsc("DEFINE QLOCAL(Q1)").ok
    with serving(queue_manager, terms=TERMS) as it:
        yield it


def conversations(served: Served) -> list[int]:
    """Return how many conversations each socket has, in the order of the sockets."""
    instances = [each.instance for each in served.server.connections()]
    return [instances.count(each) for each in sorted(set(instances))]


def reason_of(call: Callable[[], object]) -> int:
    with pytest.raises(MQError) as raised:
        call()
    return raised.value.reason


def test_as_many_share_a_socket_as_the_channel_says(served: Served) -> None:
    with ExitStack() as stack:
        for expected in ([1], [2], [3], [3, 1], [3, 2]):
            stack.callback(served.connect().close)
            assert conversations(served) == expected
    wait_until(lambda: conversations(served) == [])


def test_as_many_share_a_socket_as_the_program_says(served: Served) -> None:
    with ExitStack() as stack:
        for expected in ([1], [2], [2, 1]):
            stack.callback(served.connect(share_conversations=2).close)
            assert conversations(served) == expected
    with ExitStack() as stack:
        for expected in ([1], [1, 1]):
            stack.callback(served.connect(share_conversations=1).close)
            wait_until(lambda expected=expected: conversations(served) == expected)  # type: ignore[misc]  # bound here


def test_another_user_or_channel_has_a_socket_of_its_own(served: Served) -> None:
    with ExitStack() as stack:
        for user, channel in (("anna", "CH"), ("bob", "CH"), ("anna", "OTHER"), ("anna", "CH")):
            stack.callback(served.connect(user, channel=channel).close)
        assert conversations(served) == [2, 1, 1]


def test_a_get_that_waits_blocks_no_other_conversation(served: Served) -> None:
    waiting, other = served.connect(), served.connect()
    queue, own = (
        waiting.call(ask.Open("Q1", c.MQOO_INPUT_SHARED)).handle,
        other.call(ask.Open("Q1", BOTH_WAYS)).handle,
    )
    got: list[bytes] = []

    def wait() -> None:
        for _ in range(2):
            result = waiting.get(queue, c.MQGMO_WAIT, wait_ms=c.MQWI_UNLIMITED)
            got.append(result.message.body)

    thread = threading.Thread(target=wait)
    thread.start()
    wait_until(lambda: any(each.is_running for each in served.server.connections()))
    for _ in range(100):
        assert other.now_ms()
    assert conversations(served) == [2]
    put(other, own, b"1")
    wait_until(lambda: got == [b"1"])
    put(other, own, b"2")
    thread.join(JOIN_SECONDS)
    assert got == [b"1", b"2"]
    waiting.close()
    other.close()


def test_each_has_its_unit_of_work_and_its_end(served: Served, queue_manager: QueueManager) -> None:
    one, two = served.connect(), served.connect()
    for connection, body in ((one, b"one"), (two, b"two")):
        handle = connection.call(ask.Open("Q1", c.MQOO_OUTPUT)).handle
        put(connection, handle, body, options=c.MQPMO_SYNCPOINT)
    one.close(commit=False)
    assert conversations(served) == [1]
    two.call(ask.Commit())
    with queue_manager.session() as session:
        assert [message.body for message in session.browse("Q1")] == [b"two"]
    assert reason_of(one.now_ms) == rc.MQRC_HCONN_ERROR
    two.close()
    wait_until(lambda: conversations(served) == [])


def test_closing_one_ends_its_waits_alone(served: Served) -> None:
    one, two = served.connect(), served.connect()
    queue = one.call(ask.Open("Q1", c.MQOO_INPUT_SHARED)).handle
    reasons: list[int] = []
    thread = threading.Thread(
        target=lambda: reasons.append(
            reason_of(lambda: one.get(queue, c.MQGMO_WAIT, wait_ms=c.MQWI_UNLIMITED))
        )
    )
    thread.start()
    wait_until(lambda: any(each.is_running for each in served.server.connections()))
    one.close()
    thread.join(JOIN_SECONDS)
    assert reasons == [rc.MQRC_HCONN_ERROR]
    assert two.now_ms()
    two.close()


def test_a_broken_socket_breaks_all_its_conversations_and_no_other(served: Served) -> None:
    shared = [served.connect() for _ in range(SHARECNV)]
    other = served.connect()
    assert served.server.end(shared[1].number)
    for connection in shared:
        assert reason_of(connection.now_ms) == rc.MQRC_CONNECTION_BROKEN
        assert connection.is_broken
    assert other.now_ms()
    again = served.connect()
    assert conversations(served) == [2]
    for connection in (*shared, other, again):
        connection.close()


def test_a_dropped_conversation_ends_with_the_next_verb_of_another(
    served: Served, queue_manager: QueueManager
) -> None:
    dropped, kept = served.connect(), served.connect()
    put(
        dropped, dropped.call(ask.Open("Q1", c.MQOO_OUTPUT)).handle, b"x", options=c.MQPMO_SYNCPOINT
    )
    del dropped
    gc.collect()
    assert kept.now_ms()
    wait_until(lambda: conversations(served) == [1])
    assert queue_manager.curdepth("Q1") == 0
    first, second = served.connect(), served.connect()
    del first, second, kept
    gc.collect()
    wait_until(lambda: conversations(served) == [])


def test_MAXINST_counts_sockets(queue_manager: QueueManager) -> None:
    terms = replace(TERMS, share_conversations=2, max_instances=1)
    with serving(queue_manager, terms=terms) as served, ExitStack() as stack:
        for _ in range(2):
            stack.callback(served.connect().close)
        assert reason_of(served.connect) == rc.MQRC_CHANNEL_NOT_AVAILABLE


def test_many_threads_have_their_own_answers(served: Served) -> None:
    """Whoever reads hands the others their answers, also when it leaves."""
    connections = [served.connect() for _ in range(SHARECNV)]
    wrong: list[object] = []

    def work(connection: RemoteConnection, number: int) -> None:
        queue = connection.call(ask.Open("Q1", BOTH_WAYS)).handle
        for count in range(100):
            body = b"%d %d" % (number, count)
            msg_id = put(connection, queue, body)
            message = connection.get(queue, c.MQMO_NONE, msg_id=msg_id).message
            if message.body != body:
                wrong.append(message.body)

    threads = [
        threading.Thread(target=work, args=(connection, number))
        for number, connection in enumerate(connections)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(JOIN_SECONDS)
    assert wrong == []
    assert conversations(served) == [SHARECNV]
    for connection in connections:
        connection.close()


def test_programs_of_pymqi_and_sessions_of_jms_share_sockets(served: Served) -> None:
    assert isinstance(served.address, Address)
    names = f"{HOST}({served.address.port})"
    with ExitStack() as stack:
        for expected in ([1], [2]):
            connection = pymqi.connect("QM1", "CH", names, "operator", "x")
            stack.callback(connection.disconnect)
            assert conversations(served) == expected
    wait_until(lambda: conversations(served) == [])
    factory = jms.ConnectionFactory(connection_name_list=names, channel="CH", user="operator")
    with factory.create_connection() as connected:
        for expected in ([2], [3], [3, 1]):
            connected.create_session()
            assert conversations(served) == expected


def test_the_reader_of_callbacks_lets_another_read_when_it_is_not_needed_any_more(
    served: Served, queue_manager: QueueManager
) -> None:
    """It is the next to read, and has nothing to wait for; behind it is a get of another."""
    assert queue_manager.mqsc("DEFINE QLOCAL(Q2)").ok
    reads, begins, behind = served.connect(), served.connect(), served.connect()
    got: list[bytes] = []

    def get(connection: RemoteConnection, queue: int) -> None:
        result = connection.get(queue, c.MQGMO_WAIT, wait_ms=c.MQWI_UNLIMITED)
        got.append(result.message.body)

    def waiting(connection: RemoteConnection, name: str) -> threading.Thread:
        queue = connection.call(ask.Open(name, c.MQOO_INPUT_SHARED)).handle
        thread = threading.Thread(target=get, args=(connection, queue))
        thread.start()
        link = connection.conversation.link
        wait_until(lambda: (len(link._slots) == 1 and link._is_reading) or len(link._waiting) == 2)
        return thread

    first = waiting(reads, "Q1")
    link = reads.conversation.link
    under_way = begins.begin(ask.WaitUntil(None), print)
    wait_until(lambda: len(link._waiting) == 1)
    second = waiting(behind, "Q2")
    assert under_way.cancel()
    with queue_manager.session() as session:
        session.put("Q1", b"1")
        first.join(JOIN_SECONDS)
        session.put("Q2", b"2")
        second.join(JOIN_SECONDS)
    assert got == [b"1", b"2"]
    for connection in (reads, begins, behind):
        connection.close()
