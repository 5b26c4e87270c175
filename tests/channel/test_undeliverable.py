"""A message that cannot be put at the receiver: retries, dead letters, reports (Q1-Q6, R5, E21)."""

from __future__ import annotations

import pytest

from mayfly import QueueManager
from mayfly.engine import PutRequest
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.descriptor import Descriptor
from mayfly.mqi.structures import XQH
from mayfly.services.dead_letter.dead_letters import dead_letter_of
from mayfly.testing import VirtualClock
from tests.channel.scene import (
    CHANNEL,
    XMITQ,
    bodies,
    by_hand,
    done,
    messages,
    put,
    standing,
)
from tests.channel.test_moving import TRANSIT, outcomes, put_by_hand

DEAD = "SYSTEM.DEAD.LETTER.QUEUE"
NO_LETTERS = f"ALTER CHANNEL({CHANNEL}) USEDLQ(NO)"


def test_Q1_E21_it_becomes_a_dead_letter_there_and_its_life_goes_on(
    one: QueueManager, two: QueueManager, clock: VirtualClock
) -> None:
    put(one, b"x", queue="MISSING@QM2", time_to_live_ms=20_000, format_name="MQSTR")
    clock.advance(5_000)
    one.channels.start(CHANNEL)
    [message] = messages(two, DEAD)
    letter = dead_letter_of(message)
    assert letter is not None
    assert (letter.reason, letter.target, letter.target_manager) == (
        rc.MQRC_UNKNOWN_OBJECT_NAME,
        "MISSING",
        "QM2",
    )
    assert (letter.data, letter.original.format, message.remaining_ms) == (b"x", "MQSTR", 15_000)
    assert (letter.original.user_identifier, message.persistent) == ("alice", True)
    assert (standing(one).status, standing(one).sequence) == ("RUNNING", 1)
    clock.advance(15_000)
    assert bodies(two, DEAD) == []


@pytest.mark.parametrize(("life_ms", "left_ms"), [(None, 3_000), (9_000, 3_000), (7_000, 2_000)])
def test_X3_the_cap_of_the_dead_letter_queue_counts_there(
    one: QueueManager, two: QueueManager, clock: VirtualClock, life_ms: int | None, left_ms: int
) -> None:
    done(two, f"ALTER QLOCAL({DEAD}) CAPEXPRY(30)")
    put(one, b"x", queue="MISSING@QM2", time_to_live_ms=life_ms)
    clock.advance(5_000)
    one.channels.start(CHANNEL)
    [message] = messages(two, DEAD)
    assert message.remaining_ms == left_ms
    clock.advance(left_ms)
    assert bodies(two, DEAD) == []


@pytest.mark.parametrize(("late_ms", "is_letter"), [(1_999, False), (2_000, True)])
def test_a_full_queue_is_tried_again_MRRTY_times_every_MRTMR_ms(
    one: QueueManager, two: QueueManager, clock: VirtualClock, late_ms: int, is_letter: bool
) -> None:
    done(two, f"ALTER CHANNEL({CHANNEL}) MRRTY(2) MRTMR(1000)\nALTER QLOCAL(IN) MAXDEPTH(1)")
    put(one, b"fits")
    put(one, b"full")
    one.channels.start(CHANNEL)
    assert [standing(m).status for m in (one, two)] == ["PAUSED", "PAUSED"]
    assert bodies(two) == []
    clock.advance(late_ms)
    assert len(bodies(two, DEAD)) == is_letter
    done(two, "ALTER QLOCAL(IN) MAXDEPTH(2)")
    clock.advance(1)
    if not is_letter:
        assert bodies(two, DEAD) == []
    assert bodies(two) == [b"fits"] + [b"full"] * (not is_letter)
    assert standing(one).status == "RUNNING"


def test_each_message_of_a_batch_is_tried_again_MRRTY_times(
    one: QueueManager, two: QueueManager, clock: VirtualClock
) -> None:
    """Each of the two finds the queue full once, and there is room at its only retry."""
    done(two, f"ALTER CHANNEL({CHANNEL}) MRRTY(1) MRTMR(1000)\nALTER QLOCAL(IN) MAXDEPTH(1)")
    with two.session() as session:
        session.put("IN", b"there before")
        put(one, b"a")
        put(one, b"b")
        one.channels.start(CHANNEL)
        assert standing(two).status == "PAUSED"
        assert session.get("IN") is not None
    clock.advance(1_000)
    # The first one is put, and not committed yet.
    assert (standing(two).status, two.counts("IN").uncommitted) == ("PAUSED", 1)
    done(two, "ALTER QLOCAL(IN) MAXDEPTH(2)")
    clock.advance(1_000)
    assert (bodies(two), bodies(two, DEAD)) == ([b"a", b"b"], [])
    assert (standing(one).status, standing(one).sequence) == ("RUNNING", 2)


def test_MQRO_DISCARD_MSG_drops_it_and_an_exception_report_is_put_for_real(
    one: QueueManager, two: QueueManager
) -> None:
    report = c.MQRO_EXCEPTION_WITH_FULL_DATA | c.MQRO_DISCARD_MSG
    msg_id = put(one, b"x", queue="MISSING@QM2", report=report, reply_to_q="BACK")
    one.channels.start(CHANNEL)
    assert bodies(two, DEAD) == []
    done(two, "DEFINE CHANNEL(HOME) CHLTYPE(SDR) CONNAME(QM1) XMITQ(QM1)")
    done(one, "DEFINE CHANNEL(HOME) CHLTYPE(RCVR)")
    two.channels.start("HOME")
    [got] = messages(one, "BACK")
    assert (got.descriptor.msg_type, got.descriptor.feedback) == (
        c.MQMT_REPORT,
        rc.MQRC_UNKNOWN_OBJECT_NAME,
    )
    assert (got.correl_id, got.body) == (msg_id, b"x")


@pytest.mark.parametrize("script", [NO_LETTERS, "ALTER QMGR DEADQ('')", "ALTER QMGR DEADQ(GONE)"])
def test_Q5_persistent_without_a_dead_letter_queue_holds_the_channel_up_and_nothing_is_lost(
    one: QueueManager, two: QueueManager, clock: VirtualClock, script: str
) -> None:
    done(two, script)
    put(one, b"good")
    put(one, b"bad", queue="MISSING@QM2")
    put(one, b"behind")
    one.channels.start(CHANNEL)
    assert standing(one).status == "RETRYING"
    assert f"({rc.MQRC_UNKNOWN_OBJECT_NAME})" in standing(one).failure
    # The whole batch went back, in its order.
    assert (bodies(two), one.curdepth(XMITQ), one.counts(XMITQ).locked) == ([], 3, 0)
    done(two, "DEFINE QLOCAL(MISSING)")
    clock.advance(59_999)
    assert bodies(two) == []
    clock.advance(1)
    assert (bodies(two), bodies(two, "MISSING")) == ([b"good", b"behind"], [b"bad"])
    assert standing(one).status == "RUNNING"


def test_Q5_non_persistent_is_dropped_and_the_channel_goes_on(
    one: QueueManager, two: QueueManager
) -> None:
    done(two, NO_LETTERS)
    for speed in ("FAST", "NORMAL"):
        done(one, f"ALTER CHANNEL({CHANNEL}) NPMSPEED({speed})")
        one.channels.stop(CHANNEL)
        put(one, b"bad", queue="MISSING@QM2", persistent=False)
        put(one, b"good", persistent=False)
        one.channels.start(CHANNEL)
        assert standing(one).status == "RUNNING"
    assert bodies(two) == [b"good", b"good"]
    assert one.curdepth(XMITQ) == 0


def test_R5_a_message_whose_exception_report_reaches_no_queue_stays_where_it_is(
    one: QueueManager, two: QueueManager
) -> None:
    done(two, "ALTER QMGR DEADQ('')\nDELETE QLOCAL(QM1)")
    report = c.MQRO_EXCEPTION | c.MQRO_DISCARD_MSG
    put(one, b"x", queue="MISSING@QM2", report=report, reply_to_q="BACK")
    one.channels.start(CHANNEL)
    assert standing(one).status == "RETRYING"
    assert one.curdepth(XMITQ) == 1
    # A non-persistent one is given up, and so is its report.
    one.channels.stop(CHANNEL)
    done(one, f"CLEAR QLOCAL({XMITQ})")
    put(one, b"y", queue="MISSING@QM2", report=report, reply_to_q="BACK", persistent=False)
    one.channels.start(CHANNEL)
    assert (standing(one).status, one.curdepth(XMITQ)) == ("RUNNING", 0)


@pytest.mark.parametrize("dead_letter_queue", ["", DEAD])
def test_R4_a_discarded_report_does_not_hold_a_channel_up(
    one: QueueManager, two: QueueManager, dead_letter_queue: str
) -> None:
    """Passed on by PASS_DISCARD_AND_EXPIRY, MQRO_DISCARD_MSG says what becomes of the report."""
    done(two, f"ALTER QMGR DEADQ('{dead_letter_queue}')\nDELETE QLOCAL(QM1)")
    report = c.MQRO_EXCEPTION | c.MQRO_DISCARD_MSG | c.MQRO_PASS_DISCARD_AND_EXPIRY
    put(one, b"x", queue="MISSING@QM2", report=report, reply_to_q="BACK")
    one.channels.start(CHANNEL)
    assert (standing(one).status, one.curdepth(XMITQ)) == ("RUNNING", 0)
    assert (bodies(two, DEAD), bodies(one, "BACK")) == ([], [])


def test_MCAUSER_is_asked_for_its_authority(one: QueueManager, two: QueueManager) -> None:
    done(two, "DEFINE QLOCAL(CLOSED)")
    done(two, "SET AUTHREC OBJTYPE(QMGR) PRINCIPAL('mca') AUTHADD(CONNECT,SETALL)")
    done(two, "SET AUTHREC PROFILE(IN) OBJTYPE(QUEUE) PRINCIPAL('mca') AUTHADD(PUT,SETALL)")
    done(two, f"ALTER CHANNEL({CHANNEL}) MCAUSER('mca')")
    put(one, b"may")
    put(one, b"may not", queue="CLOSED@QM2")
    one.channels.start(CHANNEL)
    assert (bodies(two), bodies(two, "CLOSED")) == ([b"may"], [])
    [message] = messages(two, DEAD)
    letter = dead_letter_of(message)
    assert letter is not None
    assert letter.reason == rc.MQRC_NOT_AUTHORIZED


@pytest.mark.parametrize(
    ("data", "format_name"),
    [(b"no header", "MQXMIT"), (by_hand(b"x"), "MQSTR"), (b"XQH " + bytes(500), "MQXMIT")],
)
def test_what_is_no_message_for_a_channel_is_dead_lettered_where_it_is(
    two: QueueManager, clock: VirtualClock, data: bytes, format_name: str
) -> None:
    settings: dict[str, str | int | bool] = {
        "xqh.enforce_format": False,
        "xqh.check_expiry": False,
        "xqh.expiry_conflict": "allow",
    }
    with QueueManager("QM1", clock=clock, settings=settings) as one:
        done(one, f"DEFINE QLOCAL({XMITQ}) USAGE(XMITQ)\nALTER QMGR DEADQ({DEAD})")
        done(one, f"DEFINE CHANNEL({CHANNEL}) CHLTYPE(SDR) CONNAME(QM2) XMITQ({XMITQ})")
        put_by_hand(one, data, descriptor=TRANSIT._replace(format=format_name))
        put(one, b"good")
        one.channels.start(CHANNEL)
        assert bodies(two) == [b"good"]
        [message] = messages(one, DEAD)
        letter = dead_letter_of(message)
        assert letter is not None
        assert (letter.reason, letter.target) == (c.MQFB_XMIT_Q_MSG_ERROR, XMITQ)
        assert (letter.data, letter.original.format) == (data, format_name)
        assert outcomes(one, XMITQ) == ["dead_lettered", "transmitted"]
        assert one.verify().ok


def test_what_is_too_long_for_the_channel_is_dead_lettered_where_it_is(
    one: QueueManager, two: QueueManager
) -> None:
    done(two, f"ALTER CHANNEL({CHANNEL}) MAXMSGL(10)")
    done(one, f"ALTER QMGR DEADQ({DEAD})")
    put(one, b"0123456789")
    put(one, b"0123456789+")
    one.channels.start(CHANNEL)
    assert bodies(two) == [b"0123456789"]
    [message] = messages(one, DEAD)
    letter = dead_letter_of(message)
    assert letter is not None
    assert letter.reason == rc.MQRC_MSG_TOO_BIG_FOR_CHANNEL


@pytest.mark.parametrize(
    "data",
    [
        by_hand(b"x", queue="@" * 48),
        by_hand(b"x", queue="IN@QM3"),
        by_hand(b"x", Persistence=7),
        by_hand(b"x", MsgType=0),
        by_hand(b"x", Feedback=-5),
        by_hand(b"x", Priority=-5),
    ],
)
def test_what_no_queue_of_the_partner_could_take_does_not_hold_up_the_others(
    one: QueueManager, two: QueueManager, data: bytes
) -> None:
    done(one, f"ALTER QMGR DEADQ({DEAD})")
    put_by_hand(one, data)
    put(one, b"good")
    one.channels.start(CHANNEL)
    assert (standing(one).status, bodies(two)) == ("RUNNING", [b"good"])
    [message] = messages(one, DEAD)
    letter = dead_letter_of(message)
    assert letter is not None
    assert (letter.reason, letter.data) == (c.MQFB_XMIT_Q_MSG_ERROR, data)


def test_R8_the_report_on_what_is_too_long_is_about_the_message_as_it_was_put(
    one: QueueManager, two: QueueManager
) -> None:
    done(one, f"ALTER CHANNEL({CHANNEL}) MAXMSGL(10)\nALTER QMGR DEADQ({DEAD})")
    report = c.MQRO_EXCEPTION_WITH_FULL_DATA
    put(one, b"0123456789+", report=report, reply_to_q="BACK", format_name="MQSTR")
    one.channels.start(CHANNEL)
    [answer] = messages(one, "BACK")
    assert answer.descriptor.feedback == rc.MQRC_MSG_TOO_BIG_FOR_CHANNEL
    assert (answer.descriptor.format, answer.body) == ("MQSTR", b"0123456789+")


def test_R8_the_report_of_a_sender_takes_every_field_from_the_descriptor_that_was_put(
    one: QueueManager, two: QueueManager, clock: VirtualClock
) -> None:
    done(one, f"ALTER CHANNEL({CHANNEL}) MAXMSGL(10)\nALTER QMGR DEADQ({DEAD})")
    flags = c.MQMF_MSG_IN_GROUP | c.MQMF_LAST_MSG_IN_GROUP
    asked = Descriptor(
        version=2,
        report=c.MQRO_EXCEPTION | c.MQRO_PASS_DISCARD_AND_EXPIRY | c.MQRO_DISCARD_MSG,
        reply_to_q="BACK",
        persistence=1,
        group_id=b"G" * 24,
        msg_seq_number=3,
        msg_flags=flags,
    )
    with one.session() as session:
        handle = session.open("IN@QM2", c.MQOO_OUTPUT)
        handle.put(b"0123456789+", PutRequest(asked, life_ms=60_000))
    clock.advance(10_000)
    one.channels.start(CHANNEL)
    [answer] = messages(one, "BACK")
    found = answer.descriptor
    assert (found.report, answer.remaining_tenths) == (c.MQRO_DISCARD_MSG, 500)
    assert (found.group_id, found.msg_seq_number, found.msg_flags) == (b"G" * 24, 3, flags)
    assert (found.version, found.original_length) == (2, 11)
    assert (bodies(one, DEAD), one.curdepth(XMITQ)) == ([], 0)


@pytest.mark.parametrize(("waited_ms", "left"), [(0, 600), (10_000, 500), (59_999, 1)])
def test_E21_E24_a_dead_letter_of_the_sender_has_aged_outside_and_inside(
    one: QueueManager, two: QueueManager, clock: VirtualClock, waited_ms: int, left: int
) -> None:
    done(one, f"ALTER CHANNEL({CHANNEL}) MAXMSGL(10)\nALTER QMGR DEADQ({DEAD})")
    put(one, b"0123456789+", time_to_live_ms=60_000)
    clock.advance(waited_ms)
    one.channels.start(CHANNEL)
    [message] = messages(one, DEAD)
    letter = dead_letter_of(message)
    assert letter is not None
    assert (message.remaining_tenths, XQH.unpack(letter.data)["MsgDesc.Expiry"]) == (left, left)


def test_R8_a_receiver_reports_on_the_message_that_was_put_whatever_its_format(
    one: QueueManager, two: QueueManager
) -> None:
    """An MQXQH among the data of a message for an ordinary queue is the program's own."""
    data = by_hand(b"x", MsgId=b"N" * 24, Format="MQSTR")
    asked = Descriptor(
        format="MQXMIT",
        persistence=1,
        report=c.MQRO_EXCEPTION_WITH_FULL_DATA,
        reply_to_q="BACK",
        reply_to_q_mgr="QM2",
    )
    done(two, "DEFINE QLOCAL(BACK)")
    with one.session() as session:
        handle = session.open("MISSING@QM2", c.MQOO_OUTPUT)
        result = handle.put(data, PutRequest(asked))
    one.channels.start(CHANNEL)
    [answer] = messages(two, "BACK")
    assert answer.descriptor.feedback == rc.MQRC_UNKNOWN_OBJECT_NAME
    assert (answer.correl_id, answer.descriptor.format) == (result.msg_id, "MQXMIT")
    assert answer.body == data


def test_without_a_dead_letter_queue_there_it_holds_the_sender_up(
    one: QueueManager, two: QueueManager
) -> None:
    done(two, f"ALTER CHANNEL({CHANNEL}) MAXMSGL(1)")
    put(one, b"long")
    put(one, b"s", persistent=False)
    one.channels.start(CHANNEL)
    assert (standing(one).status, one.curdepth(XMITQ), bodies(two)) == ("RETRYING", 2, [])
    assert [m.backout_count for m in messages(one, XMITQ)] == [1, 1]
