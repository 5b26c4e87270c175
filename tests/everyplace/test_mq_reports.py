"""E19: a message from MQ that expires on an Everyplace queue is reported as it asked for."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mayfly import QueueManager
from mayfly.engine import Session
from mayfly.everyplace import MSG_EXPIRE_TIME, EveryplaceQueueManager, MessageFields
from mayfly.mqi import constants as c
from mayfly.services.everyplace.fields import fields_as_body
from mayfly.services.everyplace.mq_queues import ReportsToMq, move_from_mq
from mayfly.testing import VirtualClock
from tests.everyplace.scene import START_MS, text
from tests.spec.remote_scene import embedded

Q1, REPLIES = "Q1", "REPLIES"
DATA = bytes(range(250))


@pytest.fixture
def clock() -> VirtualClock:
    """The clock of the queue_manager fixture, too."""
    return VirtualClock(START_MS)


@pytest.fixture
def session(queue_manager: QueueManager, a: EveryplaceQueueManager) -> Iterator[Session]:
    """A session on the MQ side; the Everyplace queue reports there."""
    queue_manager.mqsc(f"DEFINE QLOCAL({Q1})\nDEFINE QLOCAL({REPLIES})")
    a.create_queue("Q", rule=ReportsToMq(queue_manager))
    with queue_manager.session() as opened:
        yield opened


@pytest.mark.parametrize(
    ("report", "data"),
    [
        (c.MQRO_EXPIRATION, b""),
        (c.MQRO_EXPIRATION_WITH_DATA, DATA[:100]),
        (c.MQRO_EXPIRATION_WITH_FULL_DATA, DATA),
    ],
)
def test_E19_the_report_comes_when_it_expires_there_and_once(
    a: EveryplaceQueueManager,
    queue_manager: QueueManager,
    session: Session,
    clock: VirtualClock,
    report: int,
    data: bytes,
) -> None:
    given = {"time_to_live_ms": 60_000, "reply_to_q": REPLIES}
    msg_id = session.put(Q1, DATA, report=report, priority=7, **given)  # type: ignore[arg-type]  # the types are those of put
    clock.advance(10_000)
    move_from_mq(queue_manager, Q1, a, "Q")
    clock.advance(49_999)
    assert (a.inquire_queue_size("Q"), queue_manager.curdepth(REPLIES)) == (1, 0)
    clock.advance(1)
    assert (a.inquire_queue_size("Q"), a.inquire_queue_size("Q")) == (0, 0)
    (told,) = session.browse(REPLIES)
    assert (told.descriptor.msg_type, told.descriptor.feedback) == (c.MQMT_REPORT, 258)
    assert (told.correl_id, told.body, told.priority) == (msg_id, data, 7)


def test_E19_the_correl_id_is_passed_as_asked(
    a: EveryplaceQueueManager, queue_manager: QueueManager, session: Session, clock: VirtualClock
) -> None:
    report = c.MQRO_EXPIRATION | c.MQRO_PASS_CORREL_ID
    session.put(
        Q1, DATA, report=report, correl_id=b"c" * 24, time_to_live_ms=10, reply_to_q=REPLIES
    )
    move_from_mq(queue_manager, Q1, a, "Q")
    clock.advance(10)
    assert a.get_message("Q") is None
    (told,) = session.browse(REPLIES)
    assert told.correl_id == b"c" * 24


def test_E19_what_expires_on_arrival_by_its_own_end_is_reported(
    a: EveryplaceQueueManager, queue_manager: QueueManager, session: Session, clock: VirtualClock
) -> None:
    """MQ knew no end of it."""
    body = fields_as_body(text(clock, relative_ms=10))
    report = c.MQRO_EXPIRATION_WITH_FULL_DATA
    session.put(Q1, body, msg_type=c.MQMT_MQE_FIELDS, report=report, reply_to_q=REPLIES)
    clock.advance(10)
    move_from_mq(queue_manager, Q1, a, "Q")
    assert (a.inquire_queue_size("Q"), queue_manager.curdepth(Q1)) == (0, 0)
    (told,) = session.browse(REPLIES)
    assert b'"MsgData": ["ascii", "x"]' in told.body


def test_E19_a_reply_queue_elsewhere_is_reached_by_its_transmission_queue(
    a: EveryplaceQueueManager, queue_manager: QueueManager, session: Session, clock: VirtualClock
) -> None:
    queue_manager.mqsc(
        "DEFINE QLOCAL(QM2) USAGE(XMITQ)\nDEFINE QREMOTE(FAR) RNAME(ANSWERS) RQMNAME(QM2)"
    )
    report = c.MQRO_EXPIRATION
    session.put(Q1, DATA, report=report, time_to_live_ms=10, reply_to_q="FAR")
    move_from_mq(queue_manager, Q1, a, "Q")
    clock.advance(10)
    assert a.inquire_queue_size("Q") == 0
    (travelling,) = session.browse("QM2")
    told = embedded(travelling)
    assert (told.remote, told.descriptor.feedback) == (("ANSWERS", "QM2"), 258)


@pytest.mark.parametrize("report", [c.MQRO_NONE, c.MQRO_COA | c.MQRO_EXCEPTION])
def test_E19_nothing_is_reported_that_was_not_asked_for(
    a: EveryplaceQueueManager,
    queue_manager: QueueManager,
    session: Session,
    clock: VirtualClock,
    report: int,
) -> None:
    session.put(Q1, DATA, report=report, time_to_live_ms=10, reply_to_q=REPLIES)
    arrived = queue_manager.curdepth(REPLIES)
    move_from_mq(queue_manager, Q1, a, "Q")
    own = MessageFields(clock=clock)
    own.put_int(MSG_EXPIRE_TIME, 10)
    a.put_message("Q", own)
    clock.advance(10)
    assert a.inquire_queue_size("Q") == 0
    assert queue_manager.curdepth(REPLIES) == arrived
