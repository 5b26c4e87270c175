"""Messages that are read ahead: never one that has expired, none lost, and others see the rest."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

from mayfly import QueueManager
from mayfly.client.connection import Connection
from mayfly.client.connection.endpoint import Reconnect
from mayfly.client.connection.reconnecting import ReconnectingConnection
from mayfly.client.connection.remote import RemoteConnection
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import MQError, NoMessage
from mayfly.testing import VirtualClock
from mayfly.verbs import requests as ask
from tests.conftest import Connect
from tests.connection.cut import SHORT, Cut
from tests.connection.scene import PERSISTENT, VOLATILE
from tests.connection.serving import Served, serving
from tests.facts import wait_until
from tests.spec.scene import ends

AHEAD = c.MQOO_INPUT_SHARED | c.MQOO_OUTPUT | c.MQOO_BROWSE | c.MQOO_READ_AHEAD


@pytest.fixture
def served(queue_manager: QueueManager) -> Iterator[Served]:
    """``QM1`` with the queue ``Q1`` on a port."""
    assert queue_manager.mqsc("DEFINE QLOCAL(Q1)").ok
    with serving(queue_manager) as it:
        yield it


@pytest.fixture
def remote(served: Served) -> Iterator[RemoteConnection]:
    """A connection to ``QM1`` over that port."""
    connection = served.connect()
    yield connection
    connection.close(commit=False)


def ahead_of(connection: Connection, options: int = AHEAD, name: str = "Q1") -> int:
    return connection.call(ask.Open(name, options)).handle


def put_numbers(connection: Connection, handle: int, count: int) -> list[bytes]:
    bodies = [b"%d" % number for number in range(count)]
    for body in bodies:
        connection.put(handle, body, VOLATILE)
    return bodies


def bodies_of(connection: Connection, handle: int, count: int) -> list[bytes]:
    return [connection.get(handle).message.body for _ in range(count)]


def reason_of(connection: Connection, handle: int) -> int:
    with pytest.raises(MQError) as raised:
        connection.get(handle)
    return raised.value.reason


def depth(manager: QueueManager, connection: Connection) -> int:
    """The messages of Q1 that are not held, once the server has run all earlier requests."""
    connection.now_ms()
    return manager.curdepth("Q1")


def outcomes(manager: QueueManager) -> dict[str, int]:
    """The lives of Q1 that have ended, by their outcome."""
    return Counter(end.outcome for end in ends(manager, "Q1"))


def test_all_messages_come_once_in_their_order_with_few_requests(
    queue_manager: QueueManager, served: Served, remote: RemoteConnection
) -> None:
    queue = ahead_of(remote)
    bodies = put_numbers(remote, queue, 500)
    [before] = [each.request_count for each in served.server.connections()]
    assert bodies_of(remote, queue, 500) == bodies
    assert reason_of(remote, queue) == rc.MQRC_NO_MSG_AVAILABLE
    [after] = [each.request_count for each in served.server.connections()]
    assert after - before < 250
    assert queue_manager.curdepth("Q1") == 0
    assert outcomes(queue_manager) == {"got": 500}


def test_a_message_that_expires_while_it_is_held_is_never_returned(
    queue_manager: QueueManager, remote: RemoteConnection, clock: VirtualClock
) -> None:
    queue = ahead_of(remote)
    put_numbers(remote, queue, 4)
    for body, life_ms in ((b"short", 500), (b"long", 900), (b"ever", None)):
        remote.put(queue, body, VOLATILE, time_to_live_ms=life_ms)
    assert bodies_of(remote, queue, 4) == [b"0", b"1", b"2", b"3"]
    assert depth(queue_manager, remote) == 0  # all of them are held
    clock.advance(500)
    found = remote.get(queue).message
    assert (found.body, found.remaining_ms) == (b"long", 400)
    clock.advance(400)
    assert bodies_of(remote, queue, 1) == [b"ever"]
    remote.now_ms()
    assert outcomes(queue_manager) == {"got": 6, "expired": 1}


def test_a_message_is_returned_until_the_last_millisecond_of_its_life(
    queue_manager: QueueManager, remote: RemoteConnection, clock: VirtualClock
) -> None:
    queue = ahead_of(remote)
    put_numbers(remote, queue, 3)
    for body in (b"a", b"b"):
        remote.put(queue, body, VOLATILE, time_to_live_ms=600)
    bodies_of(remote, queue, 3)
    assert depth(queue_manager, remote) == 0
    clock.advance(599)
    assert bodies_of(remote, queue, 1) == [b"a"]
    clock.advance(1)
    assert reason_of(remote, queue) == rc.MQRC_NO_MSG_AVAILABLE


@pytest.mark.parametrize("end", ["object", "connection"])
def test_messages_that_the_program_never_takes_are_in_their_places_again(
    queue_manager: QueueManager, served: Served, remote: RemoteConnection, end: str
) -> None:
    queue = ahead_of(remote)
    bodies = put_numbers(remote, queue, 20)
    assert bodies_of(remote, queue, 5) == bodies[:5]
    assert depth(queue_manager, remote) < 15
    if end == "object":
        remote.call(ask.CloseObject(queue))
    else:
        remote.close()
    other = served.connect()
    left = [other.get(ahead_of(other)).message for _ in range(15)]
    assert [message.body for message in left] == bodies[5:]
    assert {message.backout_count for message in left} == {0}
    other.close()
    assert outcomes(queue_manager) == {"got": 20}


def test_a_connection_that_breaks_loses_none(
    queue_manager: QueueManager, served: Served, remote: RemoteConnection
) -> None:
    queue = ahead_of(remote)
    bodies = put_numbers(remote, queue, 20)
    assert bodies_of(remote, queue, 5) == bodies[:5]
    remote.now_ms()  # before it goes what the program has taken
    remote.conversation.link.abort()
    wait_until(lambda: queue_manager.curdepth("Q1") == 15)
    other = served.connect()
    assert bodies_of(other, ahead_of(other, c.MQOO_INPUT_SHARED), 15) == bodies[5:]
    other.close()


def test_a_reconnected_program_goes_on_where_it_was(cut: Cut) -> None:
    made = ReconnectingConnection(cut.connect, Reconnect.YES, SHORT)
    queue = ahead_of(made)
    bodies = put_numbers(made, queue, 30)
    found = bodies_of(made, queue, 10)
    made.now_ms()
    cut.again()
    assert found + bodies_of(made, queue, 20) == bodies
    made.close()


def test_a_slow_program_gives_back_what_it_has_held_for_a_second(
    queue_manager: QueueManager, remote: RemoteConnection, clock: VirtualClock
) -> None:
    queue = ahead_of(remote)
    bodies = put_numbers(remote, queue, 60)
    assert bodies_of(remote, queue, 10) == bodies[:10]
    many_left = depth(queue_manager, remote)
    clock.advance(1_001)
    assert bodies_of(remote, queue, 1) == bodies[10:11]
    assert depth(queue_manager, remote) > many_left
    assert bodies_of(remote, queue, 49) == bodies[11:]


def test_persistent_messages_and_those_behind_them_stay_on_the_queue(
    queue_manager: QueueManager, served: Served, remote: RemoteConnection
) -> None:
    queue = ahead_of(remote)
    bodies = put_numbers(remote, queue, 6)
    remote.put(queue, b"safe", PERSISTENT)
    remote.put(queue, b"behind", VOLATILE)
    assert bodies_of(remote, queue, 5) == bodies[:5]
    assert depth(queue_manager, remote) == 2
    assert bodies_of(remote, queue, 3) == [b"5", b"safe", b"behind"]
    remote.now_ms()
    assert outcomes(queue_manager) == {"got": 8}


def test_other_gets_of_the_program_find_what_was_read_ahead(
    queue_manager: QueueManager, remote: RemoteConnection
) -> None:
    queue = ahead_of(remote)
    bodies = put_numbers(remote, queue, 6)
    wanted = remote.put(queue, b"wanted", VOLATILE)
    assert wanted is not None
    assert bodies_of(remote, queue, 4) == bodies[:4]
    assert depth(queue_manager, remote) == 0
    assert remote.get(queue, msg_id=wanted.msg_id).message.body == b"wanted"
    assert remote.get(queue, c.MQGMO_BROWSE_FIRST).message.body == b"4"
    assert remote.get(queue, c.MQGMO_SYNCPOINT).message.body == b"4"
    remote.call(ask.Backout())
    many = ask.GetMany(queue, c.MQGMO_PROPERTIES_FORCE_MQRFH2, 9, 999)
    assert [each.body for each in remote.call(many)] == [b"4", b"5"]


def test_a_message_that_is_too_long_for_the_buffer_stays_on_the_queue(
    queue_manager: QueueManager, remote: RemoteConnection
) -> None:
    queue = ahead_of(remote)
    put_numbers(remote, queue, 3)
    remote.put(queue, bytes(100), VOLATILE)
    bodies_of(remote, queue, 3)
    result = remote.get(queue, max_length=10)
    assert (result.warning, result.data_length) == (rc.MQRC_TRUNCATED_MSG_FAILED, 100)
    assert queue_manager.curdepth("Q1") == 1
    assert remote.get(queue, max_length=100).message.body == bytes(100)


def test_a_get_that_waits_is_served_as_ever(remote: RemoteConnection, clock: VirtualClock) -> None:
    queue = ahead_of(remote)
    put_numbers(remote, queue, 3)
    bodies_of(remote, queue, 3)
    clock.autojump = True
    with pytest.raises(NoMessage):
        remote.get(queue, c.MQGMO_WAIT, wait_ms=5_000)


@pytest.mark.parametrize(
    ("default", "option", "reads_ahead"),
    [
        ("NO", 0, False),
        ("NO", c.MQOO_READ_AHEAD, True),
        ("YES", 0, True),
        ("YES", c.MQOO_NO_READ_AHEAD, False),
        ("DISABLED", c.MQOO_READ_AHEAD, False),
    ],
)
def test_options_and_defaults_say_whether_messages_are_read_ahead(
    queue_manager: QueueManager,
    remote: RemoteConnection,
    default: str,
    option: int,
    reads_ahead: bool,
) -> None:
    assert queue_manager.mqsc(f"ALTER QLOCAL(Q1) DEFREADA({default})").ok
    queue = ahead_of(remote, c.MQOO_INPUT_SHARED | c.MQOO_OUTPUT | option)
    put_numbers(remote, queue, 8)
    bodies_of(remote, queue, 4)
    assert (depth(queue_manager, remote) < 4) == reads_ahead


def test_an_alias_has_the_defaults_of_its_own_and_its_queue_may_forbid_reading_ahead(
    queue_manager: QueueManager, remote: RemoteConnection
) -> None:
    assert queue_manager.mqsc("DEFINE QALIAS(A1) TARGET(Q1) DEFREADA(YES) DEFPRESP(ASYNC)").ok
    for default, reads_ahead in (("NO", True), ("DISABLED", False)):
        assert queue_manager.mqsc(f"ALTER QLOCAL(Q1) DEFREADA({default})").ok
        queue = ahead_of(remote, c.MQOO_INPUT_SHARED | c.MQOO_OUTPUT, "A1")
        found = remote.call(ask.AskStreaming(queue, "another process"))
        assert (found.answers_later, found.reads_ahead) == (True, False)  # a virtual clock
        put_numbers(remote, queue, 8)
        bodies_of(remote, queue, 4)
        assert (depth(queue_manager, remote) < 4) == reads_ahead
        bodies_of(remote, queue, 4)


def test_puts_of_the_mqi_to_a_queue_with_defpresp_async_are_told_of_by_mqstat(
    connect: Connect, queue_manager: QueueManager
) -> None:
    assert queue_manager.mqsc("DEFINE QLOCAL(Q1) MAXDEPTH(3) DEFPRESP(ASYNC)").ok
    connection = connect(queue_manager, "anna")
    queue = ahead_of(connection, c.MQOO_OUTPUT)
    for _ in range(5):
        connection.put(queue, b"x", VOLATILE, ask.RESPONSE_AS_QUEUE)
    status = connection.call(ask.AskStatus())
    assert (status.success_count, status.failure_count, status.reason) == (3, 2, rc.MQRC_Q_FULL)
    for options in (c.MQPMO_NONE, ask.response_of_mqi(c.MQPMO_SYNC_RESPONSE)):
        with pytest.raises(MQError, match="2053"):
            connection.put(queue, b"x", VOLATILE, options)
    connection.close()
