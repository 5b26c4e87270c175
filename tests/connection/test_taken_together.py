"""Messages that a connection takes in one turn; each is settled alone, as any delivery is."""

from __future__ import annotations

import gc
from pathlib import Path

import pytest

from mayfly import QueueManager
from mayfly.client.connection import Connection
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.descriptor import Descriptor
from mayfly.testing import VirtualClock
from mayfly.verbs import requests as ask
from mayfly.verbs.messages import Delivery, Settlement
from tests.conftest import Connect
from tests.connection.scene import BOTH_WAYS, PERSISTENT, VOLATILE, put
from tests.connection.test_deliveries import seen
from tests.facts import wait_until
from tests.spec.scene import ends, refused

pytestmark = pytest.mark.in_process

CONFIRMED = PERSISTENT._replace(report=c.MQRO_COD, reply_to_q="REPLY")


def taken(connection: Connection, handle: int, most: int = 100) -> list[Delivery]:
    return connection.call(ask.TakeHeld(handle, c.MQGMO_NONE, most, 10**9))


def bodies(found: list[Delivery]) -> list[bytes]:
    return [delivery.result.message.body for delivery in found]


@pytest.mark.parametrize("descriptor", [VOLATILE, PERSISTENT, CONFIRMED])
def test_each_is_settled_alone_and_a_number_once(
    queue_manager: QueueManager, connection: Connection, queue: int, descriptor: Descriptor
) -> None:
    assert queue_manager.mqsc("DEFINE QLOCAL(REPLY)").ok
    for number in range(5):
        put(connection, queue, b"%d" % number, descriptor=descriptor)
    found = taken(connection, queue, 4)
    assert bodies(found) == [b"0", b"1", b"2", b"3"]
    assert (queue_manager.counts("Q1").locked, queue_manager.curdepth("Q1")) == (4, 1)
    connection.call(ask.Settle([found[2].number], Settlement.BACKED_OUT))
    connection.call(ask.Settle([found[0].number], Settlement.RETURNED))
    connection.call(ask.Settle([found[1].number], Settlement.TAKEN))
    connection.call(
        ask.Settle(
            [found[3].number], Settlement.DEAD_LETTERED, reason=rc.MQRC_BACKOUT_THRESHOLD_REACHED
        )
    )
    for delivery in found:
        with refused(rc.MQRC_HMSG_ERROR):
            connection.call(ask.Settle([delivery.number], Settlement.TAKEN))
    assert seen(connection, queue) == [(b"0", 0), (b"2", 1), (b"4", 0)]
    assert [end.outcome for end in ends(queue_manager, "Q1")] == ["got", "got"]
    assert queue_manager.curdepth("DEAD") == 1
    # The one that was used has confirmed itself, and so has the dead letter.
    assert queue_manager.curdepth("REPLY") == (2 if descriptor is CONFIRMED else 0)
    assert queue_manager.verify().ok


def test_those_that_owe_a_report_and_those_that_owe_none_are_settled_as_one(
    queue_manager: QueueManager, connection: Connection, queue: int
) -> None:
    assert queue_manager.mqsc("DEFINE QLOCAL(REPLY)").ok
    for descriptor in (PERSISTENT, CONFIRMED, VOLATILE, CONFIRMED):
        put(connection, queue, b"x", descriptor=descriptor)
    numbers = [delivery.number for delivery in taken(connection, queue)]
    with refused(rc.MQRC_HMSG_ERROR):
        connection.call(ask.Settle([*numbers, 99], Settlement.TAKEN))
    assert queue_manager.counts("Q1").locked == 4
    connection.call(ask.Settle(list(numbers), Settlement.TAKEN))
    assert [end.outcome for end in ends(queue_manager, "Q1")] == ["got"] * 4
    assert queue_manager.curdepth("REPLY") == 2
    assert queue_manager.verify().ok


def test_a_unit_of_work_takes_them_over_and_begins_with_the_first(
    connect: Connect, queue_manager: QueueManager, connection: Connection, queue: int
) -> None:
    transaction = connect(queue_manager, "anna")
    for number in range(3):
        put(connection, queue, b"%d" % number, descriptor=PERSISTENT)
    numbers = [delivery.number for delivery in taken(connection, queue)]
    connection.call(ask.Settle(numbers[:2], Settlement.TAKEN, within=transaction.number))
    shown = queue_manager.mqsc("DISPLAY CONN(*) UOWSTDA").text
    assert (shown.count("UOWSTDA( )"), shown.count("UOWSTDA(")) == (1, 2)
    transaction.call(ask.Backout())
    assert seen(connection, queue) == [(b"0", 1), (b"1", 1)]
    connection.call(ask.Settle(numbers[2:], Settlement.TAKEN, within=transaction.number))
    transaction.call(ask.Commit())
    assert [end.outcome for end in ends(queue_manager, "Q1")] == ["got"]
    assert queue_manager.verify().ok
    transaction.close()


def test_the_end_of_the_connection_gives_them_back_counted(
    connect: Connect, queue_manager: QueueManager, connection: Connection, queue: int
) -> None:
    for number in range(3):
        put(connection, queue, b"%d" % number)
    for drop in (False, True):
        other = connect(queue_manager, "otto")
        assert len(taken(other, other.call(ask.Open("Q1", BOTH_WAYS)).handle, 2)) == 2
        if not drop:
            other.close()
        del other
        gc.collect()
        connection.call(ask.Commit())
    assert seen(connection, queue) == [(b"0", 2), (b"1", 2), (b"2", 0)]
    assert queue_manager.counts("Q1").locked == 0


def test_a_queue_manager_that_crashes_counts_them(connect: Connect, tmp_path: Path) -> None:
    folder = tmp_path / "QM1"
    with QueueManager("QM1", folder) as manager:
        assert manager.mqsc("DEFINE QLOCAL(Q1)").ok
        connection = connect(manager, None)
        queue = connection.call(ask.Open("Q1", BOTH_WAYS)).handle
        for number in range(4):
            put(connection, queue, b"%d" % number, descriptor=PERSISTENT)
        used, given_back, _left = taken(connection, queue, 3)
        connection.call(ask.Settle([used.number], Settlement.TAKEN))
        connection.call(ask.Settle([given_back.number], Settlement.RETURNED))
        manager.crash()
    with QueueManager("QM1", folder) as manager, manager.session() as session:
        found = [(m.body, m.backout_count) for m in session.browse("Q1")]
        assert found == [(b"1", 0), (b"2", 1), (b"3", 0)]
        assert manager.verify().ok


def test_an_operator_is_told_that_they_are_in_an_open_unit_of_work(
    queue_manager: QueueManager, connection: Connection, queue: int
) -> None:
    msg_id = put(connection, queue, b"x")
    taken(connection, queue)
    assert "an open unit of work" in str(queue_manager.why(msg_id))


def test_priorities_and_both_kinds_of_persistence_come_in_order(
    queue_manager: QueueManager, connection: Connection, queue: int
) -> None:
    for number in range(12):
        kind = PERSISTENT if number % 3 else VOLATILE
        descriptor = kind._replace(priority=9 - number % 2)
        put(connection, queue, b"%d" % number, descriptor=descriptor)
    wanted = [b"%d" % number for number in (*range(0, 12, 2), *range(1, 12, 2))]
    assert bodies(taken(connection, queue, 7)) + bodies(taken(connection, queue)) == wanted


@pytest.mark.parametrize("late", [3, 1_000, 2_001])
def test_E9_many_expired_ones_are_discarded_and_the_living_one_is_taken(
    queue_manager: QueueManager,
    connection: Connection,
    queue: int,
    clock: VirtualClock,
    late: int,
) -> None:
    put(connection, queue, b"first")
    for _ in range(late):
        put(connection, queue, b"late", time_to_live_ms=1_000)
    put(connection, queue, b"last")
    clock.advance(1_000)
    found: list[bytes] = []
    while len(found) < 2:
        # One turn of the lock passes over a thousand.
        found += bodies(taken(connection, queue))
    assert found == [b"first", b"last"]
    wait_until(lambda: len(ends(queue_manager, "Q1")) == late)
    assert {end.outcome for end in ends(queue_manager, "Q1")} == {"expired"}
    assert queue_manager.verify().ok


def test_a_selector_and_a_message_that_is_locked_for_browse_are_respected(
    connect: Connect, queue_manager: QueueManager, connection: Connection, queue: int
) -> None:
    for number in range(4):
        put(connection, queue, b"%d" % number, descriptor=VOLATILE._replace(priority=number))
    other = connect(queue_manager, "otto")
    theirs = other.call(ask.Open("Q1", BOTH_WAYS)).handle
    assert other.get(theirs, c.MQGMO_BROWSE_FIRST | c.MQGMO_LOCK).message.body == b"3"
    selecting = other.call(ask.Open("Q1", BOTH_WAYS, selector="Root.MQMD.Priority < 2")).handle
    assert bodies(taken(other, selecting)) == [b"1", b"0"]
    assert bodies(taken(connection, queue)) == [b"2"]
    assert bodies(taken(other, theirs)) == [b"3"]
    other.close()
