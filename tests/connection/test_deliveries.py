"""Messages that a connection holds one by one, each settled alone."""

from __future__ import annotations

import gc
from contextlib import suppress
from pathlib import Path

import pytest

from mayfly import QueueManager
from mayfly.client.connection import Connection
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.descriptor import Descriptor
from mayfly.mqi.errors import NoMessage
from mayfly.testing import VirtualClock
from mayfly.verbs import requests as ask
from mayfly.verbs.messages import Settlement
from tests.conftest import Connect
from tests.connection.scene import BOTH_WAYS, PERSISTENT, Told, got, put
from tests.facts import wait_until
from tests.spec.scene import ends, refused

TAKEN, RETURNED = Settlement.TAKEN, Settlement.RETURNED
BACKED_OUT, DEAD_LETTERED = Settlement.BACKED_OUT, Settlement.DEAD_LETTERED


def seen(connection: Connection, handle: int) -> list[tuple[bytes, int]]:
    """Browse bodies and backout counts."""
    found: list[tuple[bytes, int]] = []
    option = c.MQGMO_BROWSE_FIRST
    with suppress(NoMessage):
        while True:
            message = connection.get(handle, option).message
            found.append((message.body, message.backout_count))
            option = c.MQGMO_BROWSE_NEXT
    return found


@pytest.mark.parametrize("descriptor", [Descriptor(), PERSISTENT], ids=["volatile", "persistent"])
def test_a_delivery_is_counted_and_hidden_until_it_is_settled(
    queue_manager: QueueManager, connection: Connection, queue: int, descriptor: Descriptor
) -> None:
    put(connection, queue, b"1", descriptor=descriptor)
    delivery = got(connection, queue)
    assert delivery.result.message.body == b"1"
    counts = queue_manager.counts("Q1")
    assert (counts.live, counts.locked, queue_manager.curdepth("Q1")) == (0, 1, 0)
    assert seen(connection, queue) == []
    with refused(rc.MQRC_NO_MSG_AVAILABLE):
        connection.get(queue)
    assert ends(queue_manager, "Q1") == []
    assert queue_manager.verify().ok


@pytest.mark.parametrize("is_told", [False, True], ids=["at once", "told"])
@pytest.mark.parametrize("descriptor", [Descriptor(), PERSISTENT], ids=["volatile", "persistent"])
@pytest.mark.parametrize(
    ("settlement", "left", "outcomes"),
    [
        (TAKEN, [], ["got"]),
        (RETURNED, [(b"1", 0)], []),
        (BACKED_OUT, [(b"1", 1)], []),
        (DEAD_LETTERED, [], ["got"]),
    ],
)
def test_each_settlement_has_its_depth_backout_count_and_outcome(
    queue_manager: QueueManager,
    connection: Connection,
    queue: int,
    descriptor: Descriptor,
    settlement: Settlement,
    left: list[tuple[bytes, int]],
    outcomes: list[str],
    is_told: bool,
) -> None:
    msg_id = put(connection, queue, b"1", descriptor=descriptor)
    delivery, told = got(connection, queue), Told()
    settle = ask.Settle([delivery.number], settlement, reason=2001)
    if is_told:
        connection.begin(settle, told)
        assert told.wait() == [None]
    else:
        connection.call(settle)
    assert seen(connection, queue) == left
    assert [end.outcome for end in ends(queue_manager, "Q1")] == outcomes
    counts = queue_manager.counts("Q1")
    assert (counts.live, counts.locked) == (len(left), 0)
    with queue_manager.session() as operator:
        dead = list(operator.browse("DEAD"))
    assert [(m.msg_id, m.body[8:12]) for m in dead] == (
        [(msg_id, (2001).to_bytes(4, "little"))] if settlement is DEAD_LETTERED else []
    )
    with refused(rc.MQRC_HMSG_ERROR):
        connection.call(ask.Settle([delivery.number], TAKEN))
    assert queue_manager.verify().ok


def test_deliveries_are_settled_in_any_order_and_beside_the_unit_of_work(
    queue_manager: QueueManager, connection: Connection, queue: int
) -> None:
    for number in range(4):
        put(connection, queue, b"%d" % number)
    held = [got(connection, queue) for _ in range(3)]
    assert connection.get(queue, c.MQGMO_SYNCPOINT).message.body == b"3"
    connection.call(ask.Settle([held[2].number], TAKEN))
    connection.call(ask.Settle([held[0].number], RETURNED))
    connection.call(ask.Backout())
    assert seen(connection, queue) == [(b"0", 0), (b"3", 1)]
    connection.call(ask.Settle([held[1].number], BACKED_OUT))
    assert seen(connection, queue) == [(b"0", 0), (b"1", 1), (b"3", 1)]


def test_a_settled_delivery_confirms_itself(
    queue_manager: QueueManager, connection: Connection, queue: int
) -> None:
    """COD is part of the end: sent when it is taken, never when it goes back."""
    assert queue_manager.mqsc("DEFINE QLOCAL(REPLY)").ok
    asks = Descriptor(report=c.MQRO_COD, reply_to_q="REPLY")
    put(connection, queue, b"1", descriptor=asks)
    first = got(connection, queue)
    assert queue_manager.counts("REPLY").live == 0
    connection.call(ask.Settle([first.number], RETURNED))
    assert queue_manager.curdepth("REPLY") == 0
    connection.call(ask.Settle([got(connection, queue).number], TAKEN))
    assert queue_manager.counts("REPLY").live == 1


def test_what_the_dead_letter_queue_does_not_take_is_held_as_before(
    queue_manager: QueueManager, connection: Connection, queue: int
) -> None:
    put(connection, queue, b"1")
    delivery = got(connection, queue)
    assert queue_manager.mqsc("ALTER QLOCAL(DEAD) PUT(DISABLED)").ok
    with refused(rc.MQRC_PUT_INHIBITED):
        connection.call(ask.Settle([delivery.number], DEAD_LETTERED, reason=2001))
    assert queue_manager.counts("Q1").locked == 1
    connection.call(ask.Settle([delivery.number], TAKEN))
    assert [end.outcome for end in ends(queue_manager, "Q1")] == ["got"]


def test_E15_what_expires_while_it_is_held_can_be_taken_and_given_back_is_discarded(
    queue_manager: QueueManager, connection: Connection, queue: int, clock: VirtualClock
) -> None:
    for number in range(2):
        put(connection, queue, b"%d" % number, time_to_live_ms=1_000)
    first, second = got(connection, queue), got(connection, queue)
    clock.advance(5_000)
    assert queue_manager.counts("Q1").locked == 2
    connection.call(ask.Settle([first.number], TAKEN))
    connection.call(ask.Settle([second.number], RETURNED))
    with refused(rc.MQRC_NO_MSG_AVAILABLE):
        connection.get(queue)
    assert [end.outcome for end in ends(queue_manager, "Q1")] == ["got", "expired"]


def test_the_unit_of_work_settles_what_joins_it(
    queue_manager: QueueManager, connection: Connection, queue: int
) -> None:
    for number in range(2):
        put(connection, queue, b"%d" % number, descriptor=PERSISTENT)
    first, second = got(connection, queue), got(connection, queue)
    connection.call(ask.Settle([first.number], TAKEN, within=connection.number))
    connection.call(ask.Backout())
    assert seen(connection, queue) == [(b"0", 1)]
    connection.call(ask.Settle([second.number], TAKEN, within=connection.number))
    with refused(rc.MQRC_HMSG_ERROR):
        connection.call(ask.Settle([second.number], TAKEN))
    put(connection, queue, b"answer", options=c.MQPMO_SYNCPOINT)
    connection.call(ask.Commit())
    assert seen(connection, queue) == [(b"0", 1), (b"answer", 0)]
    assert [end.outcome for end in ends(queue_manager, "Q1")] == ["got"]


@pytest.mark.parametrize("settlement", [TAKEN, BACKED_OUT, DEAD_LETTERED])
def test_several_are_settled_by_one_transaction_or_none(
    connect: Connect, tmp_path: Path, settlement: Settlement
) -> None:
    with QueueManager("QM1", tmp_path / "QM1") as manager:
        assert manager.mqsc("DEFINE QLOCAL(Q1)\nDEFINE QLOCAL(DEAD)\nALTER QMGR DEADQ(DEAD)").ok
        connection = connect(manager, None)
        queue = connection.call(ask.Open("Q1", BOTH_WAYS)).handle
        for number in range(20):
            put(connection, queue, b"%d" % number, descriptor=PERSISTENT)
        numbers = [got(connection, queue).number for _ in range(20)]
        with refused(rc.MQRC_HMSG_ERROR):
            connection.call(ask.Settle([*numbers, 99], settlement, reason=2001))
        assert manager.counts("Q1").locked == 20
        before, told = manager.engine.store.group.batch_count, Told()
        connection.begin(ask.Settle(list(numbers), settlement, reason=2001), told)
        assert told.wait() == [None]
        assert manager.engine.store.group.batch_count - before == 1
        left = [(b"%d" % n, 1) for n in range(20)] if settlement is BACKED_OUT else []
        assert seen(connection, queue) == left
        assert manager.curdepth("DEAD") == 20 * (settlement is DEAD_LETTERED)
        assert manager.verify().ok
        connection.close()


@pytest.mark.in_process
def test_another_conversation_settles_what_is_moved_into_its_unit_of_work(
    connect: Connect, queue_manager: QueueManager, connection: Connection, queue: int
) -> None:
    """As a transaction of AMQP, which has a number and takes in deliveries of any link."""
    transaction = connect(queue_manager, "anna")
    for number in range(3):
        put(connection, queue, b"%d" % number)
    held = [got(connection, queue).number for _ in range(3)]
    with refused(rc.MQRC_OPTIONS_ERROR):
        connection.call(ask.Settle(list(held), RETURNED, within=transaction.number))
    with refused(rc.MQRC_UOW_NOT_AVAILABLE):
        connection.call(ask.Settle(list(held), TAKEN, within=10**9))
    connection.call(ask.Settle(list(held[:2]), TAKEN, within=transaction.number))
    connection.call(ask.Commit())
    assert queue_manager.counts("Q1").locked == 3
    transaction.call(ask.Commit())
    assert [end.outcome for end in ends(queue_manager, "Q1")] == ["got", "got"]
    connection.call(ask.Settle(list(held[2:]), TAKEN, within=transaction.number))
    transaction.close(commit=False)
    assert seen(connection, queue) == [(b"2", 1)]


def test_the_end_of_a_connection_gives_back_counted_what_is_not_settled(
    connect: Connect, queue_manager: QueueManager, connection: Connection, queue: int
) -> None:
    other = connect(queue_manager, "otto")
    theirs = other.call(ask.Open("Q1", BOTH_WAYS)).handle
    for number in range(3):
        put(connection, queue, b"%d" % number)
    for _ in range(2):
        got(other, theirs)
    other.close()
    assert seen(connection, queue) == [(b"0", 1), (b"1", 1), (b"2", 0)]
    assert queue_manager.counts("Q1").locked == 0


def test_a_connection_that_is_dropped_gives_back_counted_what_is_not_settled(
    connect: Connect, queue_manager: QueueManager, connection: Connection, queue: int
) -> None:
    put(connection, queue, b"1")
    dropped = connect(queue_manager, "otto")
    got(dropped, dropped.call(ask.Open("Q1", BOTH_WAYS)).handle)
    del dropped
    gc.collect()
    connection.call(ask.Commit())
    assert seen(connection, queue) == [(b"1", 1)]


def test_a_queue_manager_that_crashes_counts_the_deliveries_it_lost(
    connect: Connect, tmp_path: Path
) -> None:
    folder = tmp_path / "QM1"
    with QueueManager("QM1", folder) as manager:
        assert manager.mqsc("DEFINE QLOCAL(Q1)").ok
        connection = connect(manager, None)
        queue = connection.call(ask.Open("Q1", BOTH_WAYS)).handle
        for number in range(3):
            put(connection, queue, b"%d" % number, descriptor=PERSISTENT)
        taken, _left = got(connection, queue), got(connection, queue)
        connection.call(ask.Settle([taken.number], TAKEN))
        manager.crash()
    with QueueManager("QM1", folder) as manager, manager.session() as session:
        found = [(m.body, m.backout_count) for m in session.browse("Q1")]
        assert (found, manager.verify().ok) == ([(b"1", 1), (b"2", 0)], True)


def taken(connection: Connection, queue: int, most: int, max_bytes: int) -> list[bytes]:
    """Take what is there; return the bodies."""
    found = connection.call(ask.TakeHeld(queue, c.MQGMO_NONE, most, max_bytes))
    return [delivery.result.message.body for delivery in found]


@pytest.mark.in_process
@pytest.mark.parametrize(
    ("most", "max_bytes", "bodies"),
    [
        (9, 99, [b"1", b"22", b"333"]),
        (2, 99, [b"1", b"22"]),
        # The body that reaches the number of bytes is the last one.
        (9, 3, [b"1", b"22"]),
        (9, 4, [b"1", b"22", b"333"]),
        (0, 99, []),
    ],
)
def test_messages_that_are_there_are_taken_in_one_turn(
    connection: Connection, queue: int, most: int, max_bytes: int, bodies: list[bytes]
) -> None:
    for body in (b"1", b"22", b"333"):
        put(connection, queue, body)
    assert taken(connection, queue, most, max_bytes) == bodies
    assert [body for body, _count in seen(connection, queue)] == [b"1", b"22", b"333"][
        len(bodies) :
    ]


def test_E9_expired_messages_are_passed_over_by_a_take_and_discarded(
    queue_manager: QueueManager, connection: Connection, queue: int, clock: VirtualClock
) -> None:
    for n in range(3):
        put(connection, queue, b"late %d" % n, time_to_live_ms=1_000)
    put(connection, queue, b"live")
    clock.advance(1_000)
    assert taken(connection, queue, 9, 99) == [b"live"]
    wait_until(lambda: [end.outcome for end in ends(queue_manager, "Q1")] == ["expired"] * 3)


def test_a_take_finds_nothing_and_says_what_hinders_it(
    queue_manager: QueueManager, connection: Connection, queue: int
) -> None:
    assert taken(connection, queue, 9, 99) == []
    with refused(rc.MQRC_OPTIONS_ERROR):
        connection.call(ask.TakeHeld(queue, c.MQGMO_WAIT, 9, 99))
    put(connection, queue, b"x")
    assert queue_manager.mqsc("ALTER QLOCAL(Q1) GET(DISABLED)").ok
    with refused(rc.MQRC_GET_INHIBITED):
        connection.call(ask.TakeHeld(queue, c.MQGMO_NONE, 9, 99))
