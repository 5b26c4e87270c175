"""The exception report that a message owes which was backed out too often."""

from __future__ import annotations

import pytest

from mayfly import QueueManager, jms
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.testing import VirtualClock
from tests.jms.scene import alter, on_queue, refused


@pytest.fixture(autouse=True)
def _no_backout_queue(manager: QueueManager) -> None:
    alter(manager, "ALTER QLOCAL(Q1) BOQNAME('')")


def put_poison(
    manager: QueueManager, report: int, body: bytes = b"poison", *, persistent: bool = False
) -> bytes:
    """Put a message and back it out as often as Q1 allows; return its MsgId."""
    with manager.session(transacted=True) as native:
        msg_id = native.put(
            "Q1",
            body,
            report=report,
            reply_to_q="REPLIES",
            time_to_live_ms=60_000,
            persistent=persistent,
        )
        native.commit()
        for _ in range(2):
            assert native.get("Q1") is not None
            native.backout()
    return msg_id


def depths(manager: QueueManager) -> tuple[int, int, int]:
    """Return how many are on Q1, dead letters and replies."""
    return manager.curdepth("Q1"), manager.curdepth("DEAD"), manager.curdepth("REPLIES")


def test_Q4_a_dead_letter_of_a_consumer_owes_the_exception_report(
    context: jms.JMSContext, manager: QueueManager, q1: jms.Queue
) -> None:
    msg_id = put_poison(manager, c.MQRO_EXCEPTION)
    assert context.create_consumer(q1).receive_no_wait() is None
    assert depths(manager) == (0, 1, 1)
    report = on_queue(manager, "REPLIES")
    assert report.descriptor.msg_type == c.MQMT_REPORT
    assert report.descriptor.feedback == rc.MQRC_BACKOUT_THRESHOLD_REACHED
    assert (report.correl_id, report.body) == (msg_id, b"")


def test_the_report_has_the_data_and_the_life_that_were_asked_for(
    context: jms.JMSContext, manager: QueueManager, q1: jms.Queue, clock: VirtualClock
) -> None:
    end_ms = clock.now_ms() + 60_000
    options = c.MQRO_EXCEPTION_WITH_DATA | c.MQRO_PASS_DISCARD_AND_EXPIRY | c.MQRO_PASS_MSG_ID
    msg_id = put_poison(manager, options, bytes(range(200)))
    clock.advance(10_000)
    assert context.create_consumer(q1).receive_no_wait() is None
    report = on_queue(manager, "REPLIES")
    assert (report.msg_id, report.body) == (msg_id, bytes(range(100)))
    assert report.expire_at_ms == end_ms


def test_one_that_is_discarded_owes_it_as_well(
    context: jms.JMSContext, manager: QueueManager, q1: jms.Queue
) -> None:
    put_poison(manager, c.MQRO_EXCEPTION | c.MQRO_DISCARD_MSG)
    assert context.create_consumer(q1).receive_no_wait() is None
    assert depths(manager) == (0, 0, 1)


def test_one_that_goes_to_the_backout_queue_or_has_not_asked_owes_none(
    context: jms.JMSContext, manager: QueueManager, q1: jms.Queue
) -> None:
    consumer = context.create_consumer(q1)
    put_poison(manager, c.MQRO_NONE)
    assert consumer.receive_no_wait() is None
    assert depths(manager) == (0, 1, 0)
    alter(manager, "ALTER QLOCAL(Q1) BOQNAME(BACKOUTS)")
    put_poison(manager, c.MQRO_EXCEPTION)
    assert consumer.receive_no_wait() is None
    assert depths(manager) == (0, 1, 0)
    assert manager.curdepth("BACKOUTS") == 1


def test_the_report_is_part_of_the_unit_of_work_that_moves_the_message(
    transacted: jms.JMSContext, manager: QueueManager, q1: jms.Queue
) -> None:
    put_poison(manager, c.MQRO_EXCEPTION)
    consumer = transacted.create_consumer(q1)
    assert consumer.receive_no_wait() is None
    assert manager.counts("REPLIES").live == 0
    transacted.rollback()
    assert depths(manager) == (1, 0, 0)
    assert consumer.receive_no_wait() is None
    transacted.commit()
    assert depths(manager) == (0, 1, 1)
    assert manager.counts("REPLIES").live == 1


def test_R4_a_report_that_cannot_be_put_is_dead_lettered(
    context: jms.JMSContext, manager: QueueManager, q1: jms.Queue
) -> None:
    alter(manager, "ALTER QLOCAL(REPLIES) PUT(DISABLED)")
    put_poison(manager, c.MQRO_EXCEPTION)
    assert context.create_consumer(q1).receive_no_wait() is None
    assert depths(manager) == (0, 2, 0)


@pytest.mark.parametrize("persistent", [True, False])
def test_a_report_that_nobody_takes_keeps_a_persistent_message_where_it_is(
    context: jms.JMSContext, manager: QueueManager, q1: jms.Queue, persistent: bool
) -> None:
    alter(manager, "ALTER QLOCAL(REPLIES) PUT(DISABLED)")
    alter(manager, "ALTER QLOCAL(DEAD) MAXDEPTH(1)")
    put_poison(manager, c.MQRO_EXCEPTION, persistent=persistent)
    consumer = context.create_consumer(q1)
    if persistent:
        with refused(jms.JMSRuntimeException, rc.MQRC_BACKOUT_THRESHOLD_REACHED):
            consumer.receive_no_wait()
        assert depths(manager) == (1, 0, 0)
        alter(manager, "ALTER QLOCAL(REPLIES) PUT(ENABLED)")
    assert consumer.receive_no_wait() is None
    assert depths(manager) == (0, 1, int(persistent))
