"""Messages that a connection gets many at a time: here, over a network, and when it breaks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

import pytest

from mayfly import QueueManager
from mayfly.client.connection import Connection
from mayfly.client.connection.endpoint import Reconnect
from mayfly.client.connection.reconnecting import ReconnectingConnection
from mayfly.client.connection.remote import connect as connect_remote
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.verbs import requests as ask
from tests.client.ways import connect
from tests.connection.cut import Cut
from tests.connection.scene import BOTH_WAYS, PERSISTENT, VOLATILE, put
from tests.connection.serving import serving
from tests.spec.scene import alter, ends, refused

__all__ = ["connect"]

OPTIONS = c.MQGMO_PROPERTIES_FORCE_MQRFH2
IN_UNIT = OPTIONS | c.MQGMO_SYNCPOINT
FEW_BYTES = 10**6


def got(connection: Connection, handle: int, most: int, options: int = OPTIONS) -> list[bytes]:
    found = connection.call(ask.GetMany(handle, options, most, FEW_BYTES))
    return [message.body for message in found]


def fill(connection: Connection, handle: int, count: int) -> list[bytes]:
    numbered = [b"%d" % number for number in range(count)]
    for number, body in enumerate(numbered):
        put(connection, handle, body, descriptor=VOLATILE if number % 2 else PERSISTENT)
    return numbered


@pytest.fixture
def remote(queue_manager: QueueManager) -> Iterator[Connection]:
    assert queue_manager.mqsc("DEFINE QLOCAL(Q1)").ok
    with serving(queue_manager) as served:
        connection = connect_remote(served.endpoint(), "operator", "")
        yield connection
        connection.close(commit=False)


def test_G1_many_come_in_the_order_of_gets_and_are_gone(
    queue_manager: QueueManager, connection: Connection, queue: int
) -> None:
    numbered = fill(connection, queue, 5)
    assert got(connection, queue, 3) == numbered[:3]
    assert got(connection, queue, 3) == numbered[3:]
    assert got(connection, queue, 3) == []
    assert [end.outcome for end in ends(queue_manager, "Q1")] == ["got"] * 5


def test_G8_many_are_part_of_the_unit_of_work(
    queue_manager: QueueManager, connection: Connection, queue: int
) -> None:
    numbered = fill(connection, queue, 5)
    assert got(connection, queue, 3, IN_UNIT) == numbered[:3]
    connection.call(ask.Backout())
    found = connection.call(ask.GetMany(queue, IN_UNIT, 5, FEW_BYTES))
    assert [(m.body, m.backout_count) for m in found] == [
        (body, int(number < 3)) for number, body in enumerate(numbered)
    ]
    assert queue_manager.counts("Q1").locked == 5
    connection.call(ask.Commit())
    assert [end.outcome for end in ends(queue_manager, "Q1")] == ["got"] * 5


def test_what_cannot_be_got_many_at_a_time_is_refused(
    queue_manager: QueueManager, connection: Connection, queue: int
) -> None:
    fill(connection, queue, 3)
    for options in (c.MQGMO_NONE, OPTIONS | c.MQGMO_WAIT, OPTIONS | c.MQGMO_BROWSE_FIRST):
        with refused(rc.MQRC_OPTIONS_ERROR):
            got(connection, queue, 3, options)
    for most in (0, -1, 10_001):
        with refused(rc.MQRC_OPTIONS_ERROR):
            got(connection, queue, most)
    selecting = connection.call(
        ask.Open("Q1", c.MQOO_INPUT_SHARED, selector="JMSPriority = 0")
    ).handle
    with refused(rc.MQRC_OPTIONS_ERROR):
        got(connection, selecting, 3)
    output = connection.call(ask.Open("Q1", c.MQOO_OUTPUT)).handle
    with refused(rc.MQRC_NOT_OPEN_FOR_INPUT):
        got(connection, output, 3)
    with refused(rc.MQRC_HOBJ_ERROR):
        # Handles have numbers of the process.
        got(connection, output + 1_000, 3)
    alter(queue_manager, "Q1", GET=c.MQQA_GET_INHIBITED)
    with refused(rc.MQRC_GET_INHIBITED):
        got(connection, queue, 3)
    assert queue_manager.curdepth("Q1") == 3


def test_bodies_end_an_answer_behind_the_message_that_reaches_the_limit(
    connection: Connection, queue: int
) -> None:
    for size in (400, 400, 400, 400):
        put(connection, queue, bytes(size))
    assert len(connection.call(ask.GetMany(queue, OPTIONS, 9, 700))) == 2
    assert len(connection.call(ask.GetMany(queue, OPTIONS, 9, 1))) == 1


# Over a network.


def test_an_answer_over_a_network_has_a_bounded_size(remote: Connection) -> None:
    queue = remote.call(ask.Open("Q1", BOTH_WAYS)).handle
    with remote.together():
        for _ in range(1_001):
            remote.begin(ask.Put.of(queue, b"x", VOLATILE), lambda _told: None)
    for _ in range(3):
        put(remote, queue, bytes(600_000))
    assert len(remote.call(ask.GetMany(queue, OPTIONS, 5_000, 10**9))) == 1_000
    assert [len(m.body) for m in remote.call(ask.GetMany(queue, OPTIONS, 5_000, 10**9))] == [
        1,
        600_000,
        600_000,
    ]


def test_many_of_a_unit_of_work_that_was_lost_come_again(cut: Cut) -> None:
    connection = cast("Connection", ReconnectingConnection(cut.connect, Reconnect.YES))
    queue = connection.call(ask.Open("Q1", BOTH_WAYS)).handle
    numbered = fill(connection, queue, 5)
    assert got(connection, queue, 3, IN_UNIT) == numbered[:3]
    cut.again()
    with refused(rc.MQRC_BACKED_OUT):
        got(connection, queue, 3, IN_UNIT)
    connection.call(ask.Backout())
    assert got(connection, queue, 9) == numbered
    connection.close()
