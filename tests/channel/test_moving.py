"""What a channel moves arrives as it was put, with the life that is left of it (E6, E7, E19-29)."""

from __future__ import annotations

import pytest

from mayfly import QueueManager
from mayfly.engine import PutRequest
from mayfly.lifetime.life import KIND_LIFE, LEDGER_COLUMNS
from mayfly.mqi import constants as c
from mayfly.mqi.descriptor import Descriptor
from mayfly.mqi.structures import XQH
from mayfly.testing import VirtualClock
from tests.channel.scene import (
    CHANNEL,
    START_MS,
    XMITQ,
    bodies,
    by_hand,
    done,
    messages,
    put,
    receiving,
    sending,
    standing,
    through,
)

TRANSIT = Descriptor(format="MQXMIT", persistence=1, reply_to_q="BACK", reply_to_q_mgr="QM1")


def put_by_hand(
    manager: QueueManager,
    data: bytes,
    *,
    descriptor: Descriptor = TRANSIT,
    life_ms: int | None = None,
) -> None:
    """Put a message on the transmission queue itself."""
    with manager.session() as session:
        handle = session.open(XMITQ, c.MQOO_OUTPUT)
        handle.put(data, PutRequest(descriptor, life_ms=life_ms))


def outcomes(manager: QueueManager, queue: str) -> list[str]:
    """Return how lives on a queue ended, in order."""
    rows = [dict(zip(LEDGER_COLUMNS, row, strict=True)) for row in manager.ledger.page(0, 1_000)]
    return [row["outcome"] for row in rows if row["kind"] == KIND_LIFE and row["queue"] == queue]


def test_messages_move_as_soon_as_they_are_put_and_their_lives_there_end_transmitted(
    one: QueueManager, two: QueueManager
) -> None:
    one.channels.start(CHANNEL)
    put(one, b"first")
    put(one, b"second", persistent=False)
    assert bodies(two) == [b"first", b"second"]
    assert one.curdepth(XMITQ) == 0
    assert outcomes(one, XMITQ) == ["transmitted", "transmitted"]


def test_identity_origin_ids_and_all_else_of_the_descriptor_travel(
    one: QueueManager, two: QueueManager, clock: VirtualClock
) -> None:
    msg_id, correl_id = b"m" * 24, b"c" * 24
    put(
        one,
        b"data",
        msg_id=msg_id,
        correl_id=correl_id,
        priority=7,
        report=c.MQRO_COD | c.MQRO_PASS_CORREL_ID,
        reply_to_q="BACK",
        format_name="MQSTR",
    )
    clock.advance(3_600_000)
    one.channels.start(CHANNEL)
    [message] = messages(two)
    descriptor = message.descriptor
    assert (message.msg_id, message.correl_id, message.priority) == (msg_id, correl_id, 7)
    assert (descriptor.user_identifier, descriptor.put_appl_name) == ("alice", "mayfly")
    assert (descriptor.reply_to_q, descriptor.reply_to_q_mgr) == ("BACK", "QM1")
    assert descriptor.report == c.MQRO_COD | c.MQRO_PASS_CORREL_ID
    assert (descriptor.format, message.persistent) == ("MQSTR", True)
    # Put at 22:13:20, an hour before it came here.
    assert (message.put_date, message.put_time) == ("20231114", "22132000")
    assert message.put_ms == START_MS + 3_600_000


def test_group_and_sequence_travel_in_an_extension(one: QueueManager, two: QueueManager) -> None:
    flags = c.MQMF_MSG_IN_GROUP | c.MQMF_LAST_MSG_IN_GROUP
    grouped = Descriptor(
        version=2, group_id=b"g" * 24, msg_seq_number=3, msg_flags=flags, persistence=1
    )
    with one.session() as session:
        handle = session.open("IN@QM2", c.MQOO_OUTPUT)
        handle.put(b"third", PutRequest(grouped))
    one.channels.start(CHANNEL)
    [message] = messages(two)
    found = message.descriptor
    assert (found.group_id, found.msg_seq_number, found.msg_flags) == (b"g" * 24, 3, flags)
    assert message.body == b"third"


def test_R8_the_OriginalLength_of_a_report_travels(
    one: QueueManager, two: QueueManager, clock: VirtualClock
) -> None:
    """A report of version 2 has one, though its message was in no group and no segment."""
    asked = Descriptor(
        version=2, report=c.MQRO_EXPIRATION, reply_to_q="IN", reply_to_q_mgr="QM2", persistence=1
    )
    done(one, "DEFINE QLOCAL(HERE)")
    with one.session() as session:
        handle = session.open("HERE", c.MQOO_OUTPUT)
        handle.put(b"eleven long", PutRequest(asked, life_ms=1_000))
    clock.advance(1_000)
    assert bodies(one, "HERE") == []
    one.channels.start(CHANNEL)
    [report] = messages(two)
    found = report.descriptor
    assert (found.feedback, report.body) == (c.MQFB_EXPIRATION, b"")
    assert (found.version, found.original_length) == (2, 11)


def test_P6_the_date_that_a_program_sets_travels(one: QueueManager, two: QueueManager) -> None:
    asked = Descriptor(persistence=1, put_date="20200229", put_time="01020304")
    with one.session() as session:
        handle = session.open("IN@QM2", c.MQOO_OUTPUT | c.MQOO_SET_ALL_CONTEXT)
        handle.put(b"x", PutRequest(asked), c.MQPMO_SET_ALL_CONTEXT)
    [wrapped] = messages(one, XMITQ)
    fields = XQH.unpack(wrapped.body)
    assert (fields["MsgDesc.PutDate"], fields["MsgDesc.PutTime"]) == ("20200229", "01020304")
    one.channels.start(CHANNEL)
    [message] = messages(two)
    assert (message.put_date, message.put_time) == ("20200229", "01020304")


def test_E6_time_on_the_transmission_queue_counts(
    one: QueueManager, two: QueueManager, clock: VirtualClock
) -> None:
    put(one, b"x", time_to_live_ms=20_000)
    clock.advance(15_000)
    one.channels.start(CHANNEL)
    [message] = messages(two)
    assert (message.remaining_ms, message.remaining_tenths) == (5_000, 50)
    clock.advance(4_999)
    assert bodies(two) == [b"x"]
    clock.advance(1)
    assert bodies(two) == []


@pytest.mark.parametrize("persistent", [False, True])
@pytest.mark.parametrize(
    ("waited_ms", "outcome", "detected_by"),
    [(19_999, "transmitted", None), (20_000, "expired", "channel"), (20_001, "expired", "channel")],
)
def test_E29_a_life_on_the_transmission_queue_names_the_channel_that_ends_it(
    one: QueueManager,
    two: QueueManager,
    clock: VirtualClock,
    persistent: bool,
    waited_ms: int,
    outcome: str,
    detected_by: str | None,
) -> None:
    put(one, b"x", time_to_live_ms=20_000, persistent=persistent)
    clock.advance(waited_ms)
    one.channels.start(CHANNEL)
    clock.advance(0)
    rows = [dict(zip(LEDGER_COLUMNS, row, strict=True)) for row in one.ledger.page(0, 1_000)]
    [life] = [row for row in rows if (row["kind"], row["queue"]) == (KIND_LIFE, XMITQ)]
    assert (life["outcome"], life["detected_by"]) == (outcome, detected_by)
    assert (life["ended_by"], life["ended_program"]) == (CHANNEL, None)
    assert two.curdepth("IN") == (1 if detected_by is None else 0)


@pytest.mark.parametrize(("waited_ms", "arrives"), [(19_999, True), (20_000, False)])
def test_E29_what_expires_on_the_transmission_queue_is_reported_from_there(
    one: QueueManager, two: QueueManager, clock: VirtualClock, waited_ms: int, arrives: bool
) -> None:
    put(one, b"x", time_to_live_ms=20_000, report=c.MQRO_EXPIRATION, reply_to_q="BACK")
    clock.advance(waited_ms)
    one.channels.start(CHANNEL)
    assert bodies(two) == [b"x"] * arrives
    reports = messages(one, "BACK")
    assert [r.descriptor.feedback for r in reports] == [c.MQFB_EXPIRATION] * (not arrives)
    assert outcomes(one, XMITQ) == ["transmitted" if arrives else "expired"]


class Line:
    """A link whose calls take so long in each direction; only the sender's time passes."""

    def __init__(self, clock: VirtualClock, transit_ms: int = 0) -> None:
        self.transit_ms = transit_ms
        self.clock = clock

    def at(self, _where: str) -> None:
        """Let time pass before a call, and behind it."""
        if self.transit_ms:
            self.clock.advance(self.transit_ms)


@pytest.mark.parametrize("is_persistent", [True, False])
@pytest.mark.parametrize(("transit_ms", "left_ms"), [(0, 20_000), (99, 20_000), (100, 19_900)])
def test_E7_a_link_that_takes_a_tenth_or_more_is_subtracted(
    clock: VirtualClock, transit_ms: int, left_ms: int, is_persistent: bool
) -> None:
    slow = VirtualClock(START_MS)
    with receiving(clock) as two, sending(slow) as one:
        through(one, Line(slow, transit_ms).at)
        one.channels.start(CHANNEL)
        put(one, b"x", time_to_live_ms=20_000, persistent=is_persistent)
        [message] = messages(two)
        assert message.remaining_ms == left_ms


def test_E7_the_time_on_the_link_is_that_of_each_batch(clock: VirtualClock) -> None:
    """A link that was slow at START CHANNEL and is not now takes nothing off, and the reverse."""
    slow = VirtualClock(START_MS)
    with receiving(clock) as two, sending(slow) as one:
        line = Line(slow, 2_000)
        through(one, line.at)
        one.channels.start(CHANNEL)
        for transit_ms in (0, 3_000, 40, 700):
            line.transit_ms = transit_ms
            put(one, b"x", time_to_live_ms=20_000)
        assert [m.remaining_ms for m in messages(two)] == [20_000, 17_000, 20_000, 19_300]


@pytest.mark.parametrize("is_persistent", [True, False])
def test_E7_a_short_life_arrives_on_a_link_that_was_slow_once(
    clock: VirtualClock, is_persistent: bool
) -> None:
    slow = VirtualClock(START_MS)
    with receiving(clock) as two, sending(slow) as one:
        line = Line(slow, 2_000)
        through(one, line.at)
        one.channels.start(CHANNEL)
        line.transit_ms = 0
        put(one, b"x", time_to_live_ms=1_500, persistent=is_persistent)
        assert [m.remaining_ms for m in messages(two)] == [1_500]


@pytest.mark.parametrize(("life_ms", "arrives"), [(3_001, True), (3_000, False)])
def test_E7_E19_what_expires_on_the_link_is_reported_from_its_end(
    clock: VirtualClock, life_ms: int, arrives: bool
) -> None:
    slow = VirtualClock(START_MS)
    with receiving(clock) as two, sending(slow) as one:
        through(one, Line(slow, 3_000).at)
        one.channels.start(CHANNEL)
        put(one, b"x", time_to_live_ms=life_ms, report=c.MQRO_EXPIRATION, reply_to_q="BACK")
        assert [m.remaining_ms for m in messages(two)] == [1] * arrives
        reports = [report.descriptor.feedback for report in messages(two, "QM1")]
        assert reports == [c.MQFB_EXPIRATION] * (not arrives)


def test_E7_a_message_that_waits_for_room_has_lost_the_time_on_the_link_once(
    clock: VirtualClock,
) -> None:
    slow = VirtualClock(START_MS)
    with receiving(clock) as two, sending(slow) as one:
        done(two, "ALTER QLOCAL(IN) PUT(DISABLED)")
        line = Line(slow, 500)
        through(one, line.at)
        one.channels.start(CHANNEL)
        put(one, b"x", time_to_live_ms=20_000)
        assert standing(one).status == standing(two).status == "PAUSED"
        line.transit_ms = 0
        clock.advance(2_000)
        done(two, "ALTER QLOCAL(IN) PUT(ENABLED)")
        slow.advance(1_000)
        assert [m.remaining_ms for m in messages(two)] == [17_500]


def test_E7_what_waits_at_the_receiver_for_room_gets_older(
    one: QueueManager, two: QueueManager, clock: VirtualClock
) -> None:
    done(two, "ALTER QLOCAL(IN) PUT(DISABLED)")
    put(one, b"x", time_to_live_ms=20_000)
    one.channels.start(CHANNEL)
    assert standing(one).status == standing(two).status == "PAUSED"
    clock.advance(2_500)
    done(two, "ALTER QLOCAL(IN) PUT(ENABLED)")
    clock.advance(500)
    [message] = messages(two)
    assert message.remaining_ms == 17_000


def test_E19_what_expires_while_it_waits_at_the_receiver_is_reported_from_there(
    one: QueueManager, two: QueueManager, clock: VirtualClock
) -> None:
    done(two, "ALTER QLOCAL(IN) PUT(DISABLED)")
    put(one, b"x", time_to_live_ms=2_000, report=c.MQRO_EXPIRATION, reply_to_q="BACK")
    one.channels.start(CHANNEL)
    clock.advance(2_000)
    assert standing(one).status == "RUNNING"
    # On its way back to QM1: wrapped once more.
    [report] = messages(two, "QM1")
    assert report.descriptor.feedback == c.MQFB_EXPIRATION
    assert bodies(two, "SYSTEM.DEAD.LETTER.QUEUE") == bodies(one, XMITQ) == []


def test_E26_a_message_whose_embedded_life_has_elapsed_is_discarded_with_its_report(
    one: QueueManager, two: QueueManager, clock: VirtualClock
) -> None:
    """E25: only the outer Expiry discards on the way; E26: neither 2013 nor a dead letter."""
    data = by_hand(
        b"x",
        expiry=100,
        MsgId=b"m" * 24,
        Report=c.MQRO_EXPIRATION,
        ReplyToQ="BACK",
        ReplyToQMgr="QM1",
    )
    put_by_hand(one, data, life_ms=60_000)
    clock.advance(10_000)
    assert one.curdepth(XMITQ) == 1
    one.channels.start(CHANNEL)
    assert (one.curdepth(XMITQ), bodies(two)) == (0, [])
    [report] = messages(one, "BACK")
    assert (report.descriptor.feedback, report.correl_id) == (c.MQFB_EXPIRATION, b"m" * 24)
    assert bodies(two, "SYSTEM.DEAD.LETTER.QUEUE") == []
    assert outcomes(one, XMITQ) == ["expired"]
    assert standing(one).sequence == 0


@pytest.mark.parametrize(
    ("embedded", "outer_ms", "left_ms"),
    [(-1, None, None), (300, 60_000, 20_000), (600, 30_000, 20_000), (101, 60_000, 100)],
)
def test_E26_the_shorter_of_both_lives_goes_on(
    one: QueueManager,
    two: QueueManager,
    clock: VirtualClock,
    embedded: int,
    outer_ms: int | None,
    left_ms: int | None,
) -> None:
    put_by_hand(one, by_hand(b"x", expiry=embedded), life_ms=outer_ms)
    clock.advance(10_000)
    one.channels.start(CHANNEL)
    [message] = messages(two)
    assert message.remaining_ms == left_ms


def test_headers_with_the_high_byte_first_are_read(one: QueueManager, two: QueueManager) -> None:
    data = by_hand(b"x", expiry=100, Format="MQSTR")
    turned = XQH.pack(XQH.unpack(data), big_endian=True) + b"x"
    big = TRANSIT._replace(encoding=c.MQENC_INTEGER_NORMAL)
    put_by_hand(one, turned, descriptor=big, life_ms=10_000)
    one.channels.start(CHANNEL)
    [message] = messages(two)
    assert (message.body, message.descriptor.format, message.priority) == (b"x", "MQSTR", 3)


def test_a_second_hop_resolves_again_and_every_cap_on_the_way_counts(
    one: QueueManager, two: QueueManager, clock: VirtualClock
) -> None:
    """X3 and E6 over two channels: QM1 to QM3 by way of QM2."""
    with QueueManager("QM3", clock=clock) as three:
        done(three, "DEFINE QLOCAL(IN) CAPEXPRY(300)\nDEFINE CHANNEL(ON) CHLTYPE(RCVR)")
        done(two, "DEFINE QLOCAL(QM3) USAGE(XMITQ) CAPEXPRY(400)")
        done(two, "DEFINE CHANNEL(ON) CHLTYPE(SDR) CONNAME(QM3) XMITQ(QM3)")
        done(one, f"DEFINE QREMOTE(FAR) RNAME(IN) RQMNAME(QM3) XMITQ({XMITQ}) CAPEXPRY(600)")
        put(one, b"x", queue="FAR", msg_id=b"m" * 24)
        clock.advance(10_000)
        one.channels.start(CHANNEL)
        assert [m.remaining_ms for m in messages(two, "QM3")] == [40_000]
        clock.advance(15_000)
        two.channels.start("ON")
        [message] = messages(three)
        assert (message.msg_id, message.remaining_ms) == (b"m" * 24, 25_000)
        put(one, b"y", queue="FAR")
        assert bodies(three) == [b"x", b"y"]
        assert messages(three)[1].remaining_ms == 30_000


def test_names_at_the_receiver_are_aliases_remote_queues_and_topics(
    one: QueueManager, two: QueueManager
) -> None:
    done(two, "DEFINE QALIAS(ALSO) TARGET(IN) CAPEXPRY(50)\nDEFINE TOPIC(T) TOPICSTR(news)")
    done(two, "DEFINE QALIAS(NEWS) TARGET(T) TARGTYPE(TOPIC)\nDEFINE QLOCAL(READER)")
    done(two, "DEFINE SUB(S) TOPICSTR(news) DEST(READER)")
    done(two, "DEFINE QREMOTE(ELSEWHERE) RNAME(FAR.IN) RQMNAME(QM1)")
    one.channels.start(CHANNEL)
    for name in ("ALSO", "NEWS", "ELSEWHERE"):
        put(one, name.encode(), queue=f"{name}@QM2")
    assert [(m.body, m.remaining_ms) for m in messages(two)] == [(b"ALSO", 5_000)]
    assert bodies(two, "READER") == [b"NEWS"]
    assert two.curdepth("QM1") == 1
    assert standing(two).message_count == 3


def test_a_confirmation_of_arrival_is_sent_at_the_end_of_the_way(
    one: QueueManager, two: QueueManager
) -> None:
    done(two, "DEFINE CHANNEL(QM2.TO.QM1) CHLTYPE(SDR) CONNAME(QM1) XMITQ(QM1)")
    done(one, "DEFINE CHANNEL(QM2.TO.QM1) CHLTYPE(RCVR)")
    two.channels.start("QM2.TO.QM1")
    one.channels.start(CHANNEL)
    msg_id = put(one, b"x", report=c.MQRO_COA | c.MQRO_COD, reply_to_q="BACK")
    [arrival] = messages(one, "BACK")
    assert (arrival.descriptor.feedback, arrival.correl_id) == (c.MQFB_COA, msg_id)
    with two.session() as session:
        assert session.get("IN") is not None
    assert [r.descriptor.feedback for r in messages(one, "BACK")] == [c.MQFB_COA, c.MQFB_COD]


def test_a_message_on_the_way_is_neither_seen_nor_counted_there_before_its_batch_ends(
    one: QueueManager, two: QueueManager
) -> None:
    seen: list[tuple[list[bytes], int, int]] = []

    def look(where: str) -> None:
        if where == "behind send":
            seen.append((bodies(two), two.counts("IN").uncommitted, one.counts(XMITQ).locked))

    put(one, b"a")
    put(one, b"b")
    through(one, look)
    one.channels.start(CHANNEL)
    assert seen == [([], 2, 2)]
    assert bodies(two) == [b"a", b"b"]


def test_an_open_batch_with_more_than_a_lower_MAXUMSGS_takes_no_more(
    one: QueueManager, two: QueueManager, clock: VirtualClock
) -> None:
    done(one, f"ALTER CHANNEL({CHANNEL}) BATCHINT(1000)")
    one.channels.start(CHANNEL)
    for number in range(5):
        put(one, b"%d" % number)
    assert (bodies(two), one.counts(XMITQ).locked) == ([], 5)
    running = one.channels._senders[CHANNEL]
    # As while a turn of it is under way elsewhere.
    with running._working:
        done(one, "ALTER QMGR MAXUMSGS(3)")
        for number in range(5, 10):
            put(one, b"%d" % number)
    clock.wake(running)
    assert bodies(two) == [b"%d" % number for number in range(8)]
    assert (standing(one).batch_count, one.counts(XMITQ).locked) == (2, 2)
    clock.advance(1_000)
    assert (len(bodies(two)), standing(one).batch_count) == (10, 3)
