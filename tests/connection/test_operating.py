"""What an operator does by a connection: claims, own time, the schedule by filters, due work."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mayfly import QueueManager
from mayfly.client.connection import Administration, ClientClaims, Connection, Schedule
from mayfly.engine.api.bulk import ClaimLimit
from mayfly.lifetime.life import KIND_BALANCE, KIND_LIFE, LEDGER_COLUMNS
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import MQError
from mayfly.testing import VirtualClock
from mayfly.verbs.contracts.claims import ConsumerState
from mayfly.verbs.contracts.ledger import PositionTrimmed
from mayfly.verbs.schedule import Receipt, ScheduleFilter
from tests.conftest import Connect
from tests.connection.scene import PERSISTENT, put


@pytest.fixture
def connection(connect: Connect, queue_manager: QueueManager) -> Iterator[Connection]:
    """A connection of the operator to ``QM1``, which has the queue ``Q1``."""
    assert queue_manager.mqsc("DEFINE QLOCAL(Q1)").ok
    connected: Connection = connect(queue_manager, None)
    yield connected
    connected.close(commit=False)


@pytest.fixture
def claimed(queue_manager: QueueManager, connection: Connection, queue: int) -> Connection:
    """The consumer ``billing`` has two messages of ``Q1`` in a claim."""
    for body in (b"one", b"two"):
        put(connection, queue, body, descriptor=PERSISTENT)
    epoch = queue_manager.claims.attach("billing", "Q1").epoch
    queue_manager.claims.claim("billing", epoch, 0, ClaimLimit(10, 2**20))
    return connection


def reason_of(call: object, *args: object) -> int:
    assert callable(call)
    with pytest.raises(MQError) as raised:
        call(*args)
    return raised.value.reason


def test_claims_are_shown_and_given_back_counted(
    claimed: Connection, queue_manager: QueueManager, queue: int
) -> None:
    now_ms = queue_manager.now_ms()
    assert ClientClaims(claimed.call).standings() == [
        ConsumerState("billing", "Q1", 1, 0, 1, 2, now_ms)
    ]
    assert ClientClaims(claimed.call).release("billing") == 2
    message = claimed.get(queue).message
    assert (message.body, message.backout_count) == (b"one", 1)


def test_claims_that_are_written_are_ended(claimed: Connection) -> None:
    assert ClientClaims(claimed.call).end_written("billing", 1) == 2
    assert ClientClaims(claimed.call).release("billing") == 0
    assert Administration(claimed.call).curdepth("Q1") == 0


def test_a_consumer_that_is_not_known_is_an_unknown_name(connection: Connection) -> None:
    claims = ClientClaims(connection.call)
    assert reason_of(claims.release, "nobody") == rc.MQRC_UNKNOWN_OBJECT_NAME
    assert reason_of(claims.end_written, "nobody", 1) == rc.MQRC_UNKNOWN_OBJECT_NAME


def test_claims_that_this_store_has_not_made_are_refused(claimed: Connection) -> None:
    assert reason_of(ClientClaims(claimed.call).end_written, "billing", 2) == rc.MQRC_OBJECT_CHANGED
    assert [standing.message_count for standing in ClientClaims(claimed.call).standings()] == [2]


def test_claims_are_an_operators(connect: Connect, queue_manager: QueueManager) -> None:
    assert queue_manager.mqsc("SET AUTHREC OBJTYPE(QMGR) PRINCIPAL('bob') AUTHADD(CONNECT)").ok
    bob = connect(queue_manager, "bob")
    assert reason_of(lambda: ClientClaims(bob.call).standings()) == rc.MQRC_NOT_AUTHORIZED
    bob.close()


def test_own_time_is_the_clocks(connection: Connection, clock: VirtualClock) -> None:
    found = Administration(connection.call).own_time()
    assert (found.own_ms, found.difference_ms) == (clock.now_ms(), 0)
    assert Administration(connection.call).follow_wall() == found


def test_all_that_a_filter_finds_is_rescheduled_and_delivered(
    connection: Connection, clock: VirtualClock, queue: int
) -> None:
    for delay_ms in (1_000, 5_000):
        put(connection, queue, b"", delay_ms=delay_ms)
    start_ms = clock.now_ms()
    schedule, everything = Schedule(connection.call), ScheduleFilter("Q1")
    assert list(schedule.reschedule_all(everything, by_ms=500)) == [2]
    moments = [entry.deliver_at_ms - start_ms for entry in schedule.list(everything)]
    assert moments == [1_500, 5_500]
    [first, _] = schedule.list(everything)
    assert schedule.release(first.msg_id) is Receipt.RELEASED
    Administration(connection.call).run_due()
    assert Administration(connection.call).counts("Q1").live == 1
    assert reason_of(lambda: list(schedule.reschedule_all(everything))) == rc.MQRC_OPTIONS_ERROR


def test_D3_all_messages_of_one_msg_id_are_changed_and_counted(
    connection: Connection, queue: int
) -> None:
    for _ in range(3):
        put(connection, queue, b"", delay_ms=1_000, msg_id=b"M" * 24)
    schedule = Schedule(connection.call)
    moved = schedule.reschedule(b"M" * 24, delay_ms=5_000)
    assert (moved, moved.message_count) == (Receipt.RESCHEDULED, 3)
    released = schedule.release(b"M" * 24)
    assert (released, released.message_count) == (Receipt.RELEASED, 3)
    Administration(connection.call).run_due()
    assert Administration(connection.call).counts("Q1").live == 3
    put(connection, queue, b"", delay_ms=1_000, msg_id=b"M" * 24)
    receipt = schedule.cancel(b"M" * 24)
    assert receipt is Receipt.CANCELLED
    assert receipt.message_count == 1


# The ledger


def test_the_ledger_is_read_by_pages(
    connection: Connection, queue_manager: QueueManager, queue: int, clock: VirtualClock
) -> None:
    """Lives and balances, with the values that the store has for them."""
    for body in (b"one", b"two", b"three"):
        put(connection, queue, body, descriptor=PERSISTENT)
        connection.get(queue)
    clock.advance(3_600_000)
    ledger = Administration(connection.call).ledger
    first = ledger.first_position()
    rows = ledger.page(first - 1, 2)
    rows += ledger.page(rows[-1][0], 1_000)
    assert ledger.page(rows[-1][0], 1_000) == []
    assert rows == queue_manager.ledger.page(first - 1, 1_000)
    facts = [dict(zip(LEDGER_COLUMNS, row, strict=True)) for row in rows]
    lives = [fact for fact in facts if fact["kind"] == KIND_LIFE]
    assert [(life["outcome"], life["body_bytes"]) for life in lives] == [
        ("got", 3),
        ("got", 3),
        ("got", 5),
    ]
    assert {fact["kind"] for fact in facts} == {KIND_LIFE, KIND_BALANCE}


def test_rows_that_retention_has_removed_are_told(connect: Connect, clock: VirtualClock) -> None:
    with QueueManager("QM1", clock=clock, settings={"ledger.retention_count": 2}) as manager:
        assert manager.mqsc("DEFINE QLOCAL(Q1)").ok
        connection: Connection = connect(manager, None)
        with manager.session() as session:
            for _ in range(5):
                session.put("Q1", b"x")
                session.get("Q1")
        clock.advance(3_600_000)
        ledger = Administration(connection.call).ledger
        first = ledger.first_position()
        assert first > 1
        with pytest.raises(PositionTrimmed) as trimmed:
            ledger.page(0, 10)
        assert (trimmed.value.after_position, trimmed.value.first_position) == (0, first)
        assert ledger.page(first - 1, 10)[0][0] == first
        connection.close()
