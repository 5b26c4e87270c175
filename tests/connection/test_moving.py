"""A message under a browse cursor goes to another queue: once, with its life, or it stays."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mayfly import QueueManager
from mayfly.client.connection import Connection, LocalConnection
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.descriptor import Descriptor
from mayfly.mqi.errors import MQError
from mayfly.testing import VirtualClock
from mayfly.verbs import requests as ask
from mayfly.verbs.contracts.wire import packed_descriptor
from tests.connection.scene import PERSISTENT, put
from tests.connection.serving import serving
from tests.spec.scene import refused

LOOK = c.MQGMO_BROWSE_FIRST


@pytest.fixture(params=["local", "remote"])
def connection(request: pytest.FixtureRequest, queue_manager: QueueManager) -> Iterator[Connection]:
    """A connection of ``anna`` to ``QM1``, which has the queues ``Q1`` and ``DEAD``."""
    assert queue_manager.mqsc("DEFINE QLOCAL(Q1)\nDEFINE QLOCAL(DEAD)").ok
    if request.param == "local":
        yield LocalConnection(queue_manager.session("anna"), queue_manager)
    else:
        with serving(queue_manager) as served:
            remote = served.connect()
            yield remote
            remote.close(commit=False)


@pytest.fixture
def looked_at(connection: Connection, queue: int) -> bytes:
    """The MsgId of a message with 10 s to live, which the cursor of ``Q1`` is on."""
    put(connection, queue, b"HEADbody", descriptor=PERSISTENT, time_to_live_ms=10_000)
    return connection.get(queue, LOOK).message.msg_id


def test_Q2_a_moved_message_keeps_id_and_deadline_and_is_in_one_place(
    connection: Connection,
    queue: int,
    looked_at: bytes,
    queue_manager: QueueManager,
    clock: VirtualClock,
) -> None:
    clock.advance(4_000)
    descriptor = Descriptor(persistence=c.MQPER_PERSISTENT, format="MQSTR")
    number = connection.call(
        ask.Move(queue, "DEAD", descriptor=packed_descriptor(descriptor), header_bytes=4)
    )
    counts = queue_manager.counts("Q1"), queue_manager.counts("DEAD")
    assert [(one.live, one.locked, one.uncommitted) for one in counts] == [(0, 1, 0), (0, 0, 1)]
    connection.call(ask.Commit())
    dead = connection.call(ask.Open("DEAD", c.MQOO_INPUT_SHARED)).handle
    message = connection.get(dead).message
    assert (message.msg_id, message.body, message.remaining_ms) == (looked_at, b"body", 6_000)
    assert message.descriptor.format.strip() == "MQSTR"
    assert number > 0


def test_a_move_that_is_backed_out_leaves_the_message_where_it_was_counted(
    connection: Connection, queue: int, looked_at: bytes, queue_manager: QueueManager
) -> None:
    connection.call(ask.Move(queue, "DEAD"))
    connection.call(ask.Backout())
    message = connection.get(queue).message
    assert (message.msg_id, message.backout_count) == (looked_at, 1)
    assert queue_manager.curdepth("DEAD") == 0


@pytest.mark.parametrize(
    ("name", "putter", "reason"),
    [
        ("", None, rc.MQRC_UNKNOWN_OBJECT_NAME),
        ("NONE", None, rc.MQRC_UNKNOWN_OBJECT_NAME),
        ("Q1", None, rc.MQRC_OPTIONS_ERROR),
        ("DEAD", "berta", rc.MQRC_NOT_AUTHORIZED),
    ],
)
def test_a_message_that_cannot_be_put_there_stays_uncounted(
    connection: Connection,
    queue: int,
    looked_at: bytes,
    queue_manager: QueueManager,
    name: str,
    putter: str | None,
    reason: int,
) -> None:
    assert queue_manager.mqsc("SET AUTHREC OBJTYPE(QMGR) PRINCIPAL('berta') AUTHADD(CONNECT)").ok
    with pytest.raises(MQError) as raised:
        connection.call(ask.Move(queue, name, putter=putter))
    assert raised.value.reason == reason
    connection.call(ask.Backout())
    message = connection.get(queue).message
    assert (message.msg_id, message.backout_count) == (looked_at, 0)


def test_what_has_expired_or_is_somebody_elses_is_not_moved(
    connection: Connection, queue: int, looked_at: bytes, clock: VirtualClock
) -> None:
    connection.get(queue, c.MQGMO_SYNCPOINT, msg_id=looked_at)
    with refused(rc.MQRC_NO_MSG_UNDER_CURSOR):
        connection.call(ask.Move(queue, "DEAD"))
    connection.call(ask.Backout())
    connection.get(queue, LOOK)
    clock.advance(10_000)
    with refused(rc.MQRC_NO_MSG_UNDER_CURSOR):
        connection.call(ask.Move(queue, "DEAD"))
