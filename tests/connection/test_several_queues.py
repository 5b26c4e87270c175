"""One get on several queues into the unit of work, as servers of programs stand them."""

from __future__ import annotations

import pytest

from mayfly import QueueManager
from mayfly.client.connection import Connection
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.testing import VirtualClock
from mayfly.verbs import requests as ask
from mayfly.verbs.requests import GetAny
from tests.connection.scene import Told
from tests.spec.scene import refused

TAKES = c.MQGMO_WAIT | c.MQGMO_SYNCPOINT


@pytest.fixture
def queues(queue_manager: QueueManager, connection: Connection) -> list[int]:
    """``A`` and ``B``, open for input."""
    assert queue_manager.mqsc("DEFINE QLOCAL(A)\nDEFINE QLOCAL(B)").ok
    return [connection.call(ask.Open(name, c.MQOO_INPUT_SHARED)).handle for name in ("A", "B")]


def standing(manager: QueueManager, connection: Connection, queues: list[int]) -> Told:
    """Let a get stand, and return what it tells."""
    told = Told()
    connection.begin(ask.GetAny(list(queues), TAKES), told)
    # A verb behind it: over a socket the get stands when that is answered.
    connection.now_ms()
    return told


def test_of_two_that_come_together_one_is_taken_and_no_other(
    queue_manager: QueueManager, connection: Connection, queues: list[int]
) -> None:
    told = standing(queue_manager, connection, queues)
    with queue_manager.session(transacted=True) as putter:
        putter.put("B", b"b")
        putter.put("A", b"a")
    told.wait(1)
    [delivery] = told.deliveries
    taken = queues.index(delivery.handle)
    counts = queue_manager.counts("A"), queue_manager.counts("B")
    assert (counts[taken].locked, counts[taken].live) == (1, 0)
    assert (counts[1 - taken].locked, counts[1 - taken].live) == (0, 1)


def test_what_was_taken_is_not_lost_when_another_of_the_queues_goes(
    queue_manager: QueueManager, connection: Connection, queues: list[int]
) -> None:
    opened = connection.call(ask.Open("SYSTEM.DEFAULT.MODEL.QUEUE", c.MQOO_INPUT_SHARED))
    told = standing(queue_manager, connection, [queues[0], opened.handle])
    with queue_manager.session() as putter:
        putter.put("A", b"a")
    connection.call(ask.CloseObject(opened.handle))
    told.wait(1)
    assert ([d.handle for d in told.deliveries], told.reasons) == ([queues[0]], [])
    connection.call(ask.Commit())
    assert queue_manager.counts("A").locked == queue_manager.curdepth("A") == 0


def test_it_is_taken_in_the_unit_of_work_at_the_moment_it_comes(
    queue_manager: QueueManager, connection: Connection, queues: list[int], clock: VirtualClock
) -> None:
    told = standing(queue_manager, connection, queues)
    with queue_manager.session() as putter:
        putter.put("B", b"b", time_to_live_ms=1)
    clock.advance(10_000)
    told.wait(1)
    assert told.deliveries[0].result.message.body == b"b"
    connection.call(ask.Backout())
    # Its life has ended while it was in work.
    with queue_manager.session() as session:
        assert session.get("B") is None


def test_what_has_expired_is_discarded_and_not_taken(
    queue_manager: QueueManager, connection: Connection, queues: list[int], clock: VirtualClock
) -> None:
    with queue_manager.session() as putter:
        putter.put("A", b"old", time_to_live_ms=1_000)
        clock.advance(1_000)
        assert queue_manager.curdepth("A") == 1
        told = standing(queue_manager, connection, queues)
        assert queue_manager.curdepth("A") == 0
        putter.put("B", b"new")
    told.wait(1)
    assert told.deliveries[0].result.message.body == b"new"


@pytest.mark.parametrize("is_deleted", [True, False])
def test_the_end_of_one_of_the_queues_ends_the_get(
    queue_manager: QueueManager, connection: Connection, queues: list[int], *, is_deleted: bool
) -> None:
    """A handle that is closed, or a dynamic queue that is deleted by somebody else."""
    if is_deleted:
        with queue_manager.session() as owner:
            made = owner.open("SYSTEM.DEFAULT.MODEL.QUEUE", c.MQOO_INPUT_SHARED)
            second = connection.call(ask.Open(made.queue_name, c.MQOO_INPUT_SHARED)).handle
            told = standing(queue_manager, connection, [queues[0], second])
    else:
        told = standing(queue_manager, connection, queues)
        connection.call(ask.CloseObject(queues[1]))
    told.wait(1)
    assert told.reasons == [rc.MQRC_Q_DELETED if is_deleted else rc.MQRC_HOBJ_ERROR]
    with queue_manager.session() as putter:
        putter.put("A", b"a")
    assert queue_manager.counts("A").live == 1


def test_a_get_of_several_queues_is_begun_and_not_called(
    connection: Connection, queues: list[int]
) -> None:
    for handles in ([], queues):
        with refused(rc.MQRC_OPTIONS_ERROR):
            connection.call(GetAny(handles, c.MQGMO_NONE, 0))
