"""Between Everyplace queues and MQ queues: fields, types, and what is left of a life, both ways."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from mayfly import QueueManager
from mayfly.engine import Session
from mayfly.everyplace import (
    MSG_CORREL_ID,
    MSG_EXPIRE_TIME,
    MSG_PRIORITY,
    MSG_REPLY_TO_Q,
    MSG_REPLY_TO_Q_MGR,
    EveryplaceQueueManager,
    MessageFields,
    QueueEntry,
    QueueRule,
    SkewedClock,
)
from mayfly.lifetime.everyplace import ExpireTime
from mayfly.lifetime.window import LONGEST_LIFE_MS
from mayfly.mqi import reasons as rc
from mayfly.mqi.constants import MQEI_UNLIMITED, MQMT_MQE_FIELDS, MQMT_MQE_FIELDS_FROM_MQE
from mayfly.mqi.errors import MQError
from mayfly.services.everyplace.fields import MQ_DATA, fields_as_body
from mayfly.services.everyplace.mq_queues import move_from_mq, move_to_mq
from mayfly.testing import VirtualClock
from tests.everyplace.scene import START_MS, Remembering, refused, seen, take, text

Q1 = "Q1"


@pytest.fixture
def clock() -> VirtualClock:
    """The clock of the queue_manager fixture, too."""
    return VirtualClock(START_MS)


@pytest.fixture
def session(queue_manager: QueueManager, a: EveryplaceQueueManager) -> Iterator[Session]:
    """A session on the MQ side; both sides have an empty queue."""
    queue_manager.mqsc(f"DEFINE QLOCAL({Q1})")
    a.create_queue("Q")
    with queue_manager.session() as opened:
        yield opened


def put_on(session: Session, message: MessageFields, life_ms: int | None = None) -> None:
    """Put a message as an MQ program does that speaks to Everyplace."""
    body = fields_as_body(message)
    session.put(Q1, body, msg_type=MQMT_MQE_FIELDS, time_to_live_ms=life_ms)


def test_a_message_goes_over_whole_and_comes_back(
    a: EveryplaceQueueManager, session: Session, queue_manager: QueueManager, clock: VirtualClock
) -> None:
    message = text(clock)
    message.put_byte(MSG_PRIORITY, 7)
    message.put_array_of_byte(MSG_CORREL_ID, b"c" * 24)
    message.put_ascii(MSG_REPLY_TO_Q, "REPLIES")
    message.put_double("D", 0.1)
    uid = a.put_message("Q", message)
    assert move_to_mq(a, "Q", session, Q1) is not None
    assert a.inquire_queue_size("Q") == 0
    (over,) = session.browse(Q1)
    md = over.descriptor
    assert (md.msg_type, md.priority, md.reply_to_q) == (MQMT_MQE_FIELDS_FROM_MQE, 7, "REPLIES")
    assert (over.correl_id, over.remaining_tenths) == (b"c" * 24, MQEI_UNLIMITED)
    assert move_from_mq(queue_manager, Q1, a, "Q") == uid
    back = a.get_message("Q")
    assert back is not None
    assert (back.uid, back.fields()) == (uid, message.fields())
    assert move_to_mq(a, "Q", session, Q1) is None
    assert move_from_mq(queue_manager, Q1, a, "Q") is None


@pytest.mark.parametrize("is_absolute", [False, True])
@pytest.mark.parametrize(("waited_ms", "tenths"), [(0, 600), (1, 600), (100, 599), (59_999, 1)])
def test_what_is_left_becomes_the_expiry_rounded_up(
    a: EveryplaceQueueManager,
    session: Session,
    clock: VirtualClock,
    waited_ms: int,
    tenths: int,
    is_absolute: bool,
) -> None:
    message = text(clock, relative_ms=60_000)
    if is_absolute:
        message = text(clock, at_ms=START_MS + 60_000)
    a.put_message("Q", message)
    clock.advance(waited_ms)
    move_to_mq(a, "Q", session, Q1)
    (over,) = session.browse(Q1)
    assert over.remaining_tenths == tenths
    clock.advance(60_000 - waited_ms - 1)
    assert len(list(session.browse(Q1))) == 1
    clock.advance(1)
    assert session.get(Q1) is None


def test_an_expired_message_meets_its_rule_and_does_not_go_over(
    a: EveryplaceQueueManager, session: Session, clock: VirtualClock, rule: Remembering
) -> None:
    a.create_queue("R", rule=rule)
    a.put_message("R", text(clock, relative_ms=10))
    clock.advance(10)
    assert move_to_mq(a, "R", session, Q1) is None
    assert (rule.expired, session.get(Q1)) == (["x"], None)


def test_the_interval_of_a_queue_stays_behind_and_the_longest_life_is_that_of_mq(
    a: EveryplaceQueueManager, session: Session, clock: VirtualClock
) -> None:
    a.create_queue("R", expiry_ms=10)
    a.put_message("R", text(clock, "1"))
    a.put_message("R", text(clock, "2", at_ms=2**63 - 1))
    assert move_to_mq(a, "R", session, Q1) is not None
    assert move_to_mq(a, "R", session, Q1) is not None
    lives = [message.remaining_ms for message in session.browse(Q1)]
    assert lives == [None, LONGEST_LIFE_MS]


def test_E3_the_longest_life_is_the_longest_that_the_queue_manager_takes(
    a: EveryplaceQueueManager, clock: VirtualClock
) -> None:
    strict = {"expiry.max_check": "always"}
    with QueueManager("STRICT", clock=clock, settings=strict) as manager:
        assert manager.mqsc(f"DEFINE QLOCAL({Q1})").ok
        with manager.session() as session:
            a.create_queue("R")
            a.put_message("R", text(clock, at_ms=2**63 - 1))
            assert move_to_mq(a, "R", session, Q1) is not None
            [message] = session.browse(Q1)
            assert message.remaining_ms == 99_999_999_900


def test_what_mq_refuses_is_still_there(
    a: EveryplaceQueueManager, session: Session, clock: VirtualClock
) -> None:
    a.put_message("Q", text(clock))
    with pytest.raises(MQError) as caught:
        move_to_mq(a, "Q", session, "NO.SUCH.QUEUE")
    assert caught.value.reason == rc.MQRC_UNKNOWN_OBJECT_NAME
    assert seen(a) == ["x"]


@pytest.mark.parametrize("skew_ms", [0, -3_600_000])
def test_what_is_left_in_mq_becomes_a_moment_of_the_clock_there(
    queue_manager: QueueManager, session: Session, clock: VirtualClock, skew_ms: int
) -> None:
    c = EveryplaceQueueManager("C", clock=SkewedClock(clock, skew_ms))
    c.create_queue("Q")
    session.put(Q1, b"data", time_to_live_ms=60_000, priority=3, correl_id=b"c" * 24)
    clock.advance(10_000)
    move_from_mq(queue_manager, Q1, c, "Q")
    (message,) = c.browse_messages("Q")
    assert message.expire_time == ExpireTime(START_MS + 60_000 + skew_ms, is_absolute=True)
    assert message.get_array_of_byte(MQ_DATA) == b"data"
    assert (message.priority, message.get_array_of_byte(MSG_CORREL_ID)) == (3, b"c" * 24)
    clock.advance(49_999)
    assert c.inquire_queue_size("Q") == 1
    clock.advance(1)
    assert c.inquire_queue_size("Q") == 0


@pytest.mark.parametrize(("own_ms", "life_ms", "end_ms"), [(10, 20, 10), (20, 10, 10)])
def test_of_two_ends_the_earlier_counts(
    a: EveryplaceQueueManager,
    queue_manager: QueueManager,
    session: Session,
    clock: VirtualClock,
    own_ms: int,
    life_ms: int,
    end_ms: int,
) -> None:
    put_on(session, text(clock, relative_ms=own_ms), life_ms)
    move_from_mq(queue_manager, Q1, a, "Q")
    (message,) = a.browse_messages("Q")
    assert message.get_long(MSG_EXPIRE_TIME) == START_MS + end_ms


def test_without_an_expiry_in_mq_the_end_stays_as_it_was_said(
    a: EveryplaceQueueManager, queue_manager: QueueManager, session: Session, clock: VirtualClock
) -> None:
    put_on(session, text(clock, relative_ms=10))
    put_on(session, text(clock, "dead", relative_ms=5))
    move_from_mq(queue_manager, Q1, a, "Q")
    (message,) = a.browse_messages("Q")
    assert message.get_int(MSG_EXPIRE_TIME) == 10
    clock.advance(5)
    assert move_from_mq(queue_manager, Q1, a, "Q") is not None
    assert (take(a), take(a)) == ("x", "-")


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\xff",
        b"[]",
        b"{}",
        b'{"uid": ["A", 1], "fields": {}}',
        b'{"uid": ["A", 1, 1], "fields": {"F": ["int", 99999999999]}}',
        b'{"uid": ["A", 1, 1], "fields": {"F": ["bytes", "*"]}}',
        b'{"uid": ["A", 1, 1], "fields": {"F": ["no such type", 1]}}',
        b'{"uid": ["A", 1, 1], "fields": {"F": 1}}',
        b'{"uid": ["A", 1, 1], "fields": {"F": ["int", 1, 1]}}',
        b'{"uid": ["A", Infinity, 1], "fields": {}}',
        b'{"uid": ["A", 9223372036854775808, 1], "fields": {}}',
        b'{"uid": ["A", -1, 1], "fields": {"Msg_ExpireTime": ["int", -1]}}',
        b'{"uid": ["A", "1", 1], "fields": {}}',
        b'{"uid": ["A", 1, true], "fields": {}}',
        b'{"uid": ["A", 1, -1], "fields": {}}',
        b'{"uid": [7, 1, 1], "fields": {}}',
        b"[" * 100_000,
    ],
)
def test_a_body_without_fields_is_refused_and_stays(
    a: EveryplaceQueueManager, queue_manager: QueueManager, session: Session, body: bytes
) -> None:
    session.put(Q1, body, msg_type=MQMT_MQE_FIELDS)
    said = refused(rc.MQRC_FORMAT_ERROR, lambda: move_from_mq(queue_manager, Q1, a, "Q"))
    assert repr(body[:40]) in said
    assert queue_manager.curdepth(Q1) == 1
    assert a.inquire_queue_size("Q") == 0


@pytest.mark.parametrize("uid", [("", 0, 0), ("A", 2**63 - 1, 2**63 - 1)])
def test_a_body_is_taken_with_the_least_and_the_most_a_uid_can_be(
    a: EveryplaceQueueManager,
    queue_manager: QueueManager,
    session: Session,
    uid: tuple[str, int, int],
) -> None:
    body = json.dumps({"uid": uid, "fields": {}}).encode()
    session.put(Q1, body, msg_type=MQMT_MQE_FIELDS)
    assert move_from_mq(queue_manager, Q1, a, "Q") == ("A", *uid[1:])


def test_a_priority_that_only_mq_knows_becomes_the_highest(
    a: EveryplaceQueueManager, queue_manager: QueueManager, session: Session
) -> None:
    """MQ takes a priority over its maximum with a warning, and keeps it."""
    session.put(Q1, b"data", priority=15)
    assert move_from_mq(queue_manager, Q1, a, "Q") is not None
    (message,) = a.browse_messages("Q")
    assert message.priority == 9


def test_what_ends_while_it_is_moved_has_a_last_millisecond_in_mq(
    a: EveryplaceQueueManager, session: Session, clock: VirtualClock
) -> None:
    """The get was in time; an MQ put takes no life of 0 or less."""

    class Slow(QueueRule):
        def get_message(self, entry: QueueEntry, message: MessageFields) -> None:
            clock.advance(20)

    a.create_queue("R", rule=Slow())
    a.put_message("R", text(clock, relative_ms=10))
    assert move_to_mq(a, "R", session, Q1) is not None
    (over,) = session.browse(Q1)
    assert over.remaining_ms == 1
    clock.advance(1)
    assert session.get(Q1) is None


def test_what_everyplace_refuses_stays_in_mq(
    a: EveryplaceQueueManager, queue_manager: QueueManager, session: Session, clock: VirtualClock
) -> None:
    a.create_queue("FULL", max_depth=1)
    a.put_message("FULL", text(clock))
    session.put(Q1, b"data")
    refused(rc.MQRC_Q_FULL, lambda: move_from_mq(queue_manager, Q1, a, "FULL"))
    assert queue_manager.curdepth(Q1) == 1
    assert move_from_mq(queue_manager, Q1, a, "Q") is not None


def test_a_transacted_session_takes_nothing(
    a: EveryplaceQueueManager, session: Session, queue_manager: QueueManager, clock: VirtualClock
) -> None:
    """Backed out, the message would be on neither side."""
    a.put_message("Q", text(clock))
    with queue_manager.session(transacted=True) as unit:
        said = refused(rc.MQRC_SYNCPOINT_NOT_AVAILABLE, lambda: move_to_mq(a, "Q", unit, Q1))
    assert "Q to Q1" in said
    assert (seen(a), queue_manager.curdepth(Q1)) == (["x"], 0)


def test_a_synchronous_remote_queue_is_moved_by_who_holds_it(
    a: EveryplaceQueueManager, queue_manager: QueueManager, session: Session, clock: VirtualClock
) -> None:
    """A link that is cut in between would leave a message there that nobody can name."""
    far = EveryplaceQueueManager("FAR", clock)
    far.connect(a)
    far.create_remote_queue("Q", "A")
    far.put_message("Q", text(clock))
    session.put(Q1, b"data")
    refused(rc.MQRC_OPTION_NOT_VALID_FOR_TYPE, lambda: move_to_mq(far, "Q", session, Q1))
    refused(rc.MQRC_OPTION_NOT_VALID_FOR_TYPE, lambda: move_from_mq(queue_manager, Q1, far, "Q"))
    assert (seen(a), queue_manager.curdepth(Q1)) == (["x"], 1)


def test_an_asynchronous_remote_queue_takes_messages_from_mq(
    a: EveryplaceQueueManager, queue_manager: QueueManager, session: Session, clock: VirtualClock
) -> None:
    far = EveryplaceQueueManager("FAR", clock)
    far.connect(a)
    far.create_remote_queue("Q", "A", asynchronous=True)
    session.put(Q1, b"data", time_to_live_ms=60_000)
    clock.advance(59_999)
    assert move_from_mq(queue_manager, Q1, far, "Q") is not None
    assert (far.transmit_put("Q"), far.transmit_confirm("Q")) == (1, 1)
    (message,) = a.browse_messages("Q")
    assert message.get_long(MSG_EXPIRE_TIME) == START_MS + 60_000


@pytest.mark.parametrize(
    ("reply_to", "queue", "manager"),
    [("ANSWERS@QM2", "ANSWERS", "QM2"), ("ANSWERS", "ANSWERS", "QM1"), ("", "", "")],
)
def test_where_to_answer_goes_both_ways(
    a: EveryplaceQueueManager,
    queue_manager: QueueManager,
    session: Session,
    reply_to: str,
    queue: str,
    manager: str,
) -> None:
    session.put(Q1, b"data", reply_to_q=reply_to)
    move_from_mq(queue_manager, Q1, a, "Q")
    (message,) = a.browse_messages("Q")
    there = message.fields()
    assert [name in there for name in (MSG_REPLY_TO_Q, MSG_REPLY_TO_Q_MGR)] == [bool(queue)] * 2
    if queue:
        assert message.get_ascii(MSG_REPLY_TO_Q) == queue
        assert message.get_ascii(MSG_REPLY_TO_Q_MGR) == manager
    move_to_mq(a, "Q", session, Q1)
    (over,) = session.browse(Q1)
    assert (over.descriptor.reply_to_q, over.descriptor.reply_to_q_mgr) == (queue, manager)


def test_a_queue_name_that_is_not_ascii_is_no_obstacle(
    a: EveryplaceQueueManager, queue_manager: QueueManager, session: Session
) -> None:
    session.put(Q1, b"data", reply_to_q="RÉPONSES")
    move_from_mq(queue_manager, Q1, a, "Q")
    (message,) = a.browse_messages("Q")
    assert message.get_unicode(MSG_REPLY_TO_Q) == "RÉPONSES"
    move_to_mq(a, "Q", session, Q1)
    (over,) = session.browse(Q1)
    assert over.descriptor.reply_to_q == "RÉPONSES"


@pytest.mark.parametrize("correl_id", [b"c" * 25, b"c" * 24, b"c", b""])
def test_fields_that_mq_has_no_room_for_stay_in_the_body(
    a: EveryplaceQueueManager, session: Session, clock: VirtualClock, correl_id: bytes
) -> None:
    message = text(clock)
    message.put_array_of_byte(MSG_REPLY_TO_Q, b"REPLIES")
    message.put_ascii(MSG_REPLY_TO_Q_MGR, "QM2")
    message.put_array_of_byte(MSG_CORREL_ID, correl_id)
    a.put_message("Q", message)
    move_to_mq(a, "Q", session, Q1)
    (over,) = session.browse(Q1)
    assert (over.descriptor.reply_to_q, over.descriptor.reply_to_q_mgr) == ("", "")
    shown = correl_id if len(correl_id) <= 24 else b""
    assert over.correl_id == shown.ljust(24, b"\0")
    assert over.body == fields_as_body(message)
