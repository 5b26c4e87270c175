"""Where reports go and with whom, rules R4-R10, COA and COD."""

import pytest

from mayfly import QueueManager
from mayfly.engine import Session, report_exception
from mayfly.lifetime.reports import Cause
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.structures import DLH
from mayfly.testing import VirtualClock
from tests.over import NewSession
from tests.spec.report_scene import (
    BODY,
    CAUSES,
    DATA,
    FEEDBACK,
    FULL,
    MSG_ID,
    asking,
    cause_report,
    report_of,
)
from tests.spec.scene import (
    BROWSE,
    DEAD,
    INPUT,
    REPLIES,
    STAGING,
    End,
    alter,
    alter_manager,
    body,
    ends,
    put_md,
    take,
)


def test_R_coa_is_in_the_putters_unit_of_work(
    manager: QueueManager, session: Session, unit: Session
) -> None:
    for is_kept in (False, True):
        unit.put("Q1", b"x", report=c.MQRO_COA, reply_to_q=REPLIES)
        assert session.get(REPLIES) is None
        if is_kept:
            unit.commit()
        else:
            unit.backout()
        assert (session.get(REPLIES) is not None) == is_kept


def test_R_cod_is_in_the_getters_unit_of_work(
    manager: QueueManager, session: Session, unit: Session
) -> None:
    session.put("Q1", b"x", report=c.MQRO_COD, reply_to_q=REPLIES)
    for is_kept in (False, True):
        assert body(unit.get("Q1")) == b"x"
        assert session.get(REPLIES) is None
        if is_kept:
            unit.commit()
        else:
            unit.backout()
        assert (session.get(REPLIES) is not None) == is_kept


def test_R_cod_not_on_browse_but_under_the_cursor(manager: QueueManager, session: Session) -> None:
    session.put("Q1", b"x", report=c.MQRO_COD, reply_to_q=REPLIES)
    handle = session.open("Q1", INPUT | BROWSE)
    take(handle, c.MQGMO_BROWSE_FIRST)
    assert session.get(REPLIES) is None
    take(handle, c.MQGMO_MSG_UNDER_CURSOR)
    assert session.get(REPLIES) is not None


def test_R_cod_not_when_expired_and_expiration_not_when_got(
    manager: QueueManager, session: Session, clock: VirtualClock
) -> None:
    both = c.MQRO_COD | c.MQRO_EXPIRATION
    for late_ms, feedback in ((-1, c.MQFB_COD), (0, c.MQFB_EXPIRATION)):
        session.put("Q1", b"x", report=both, reply_to_q=REPLIES, time_to_live_ms=1_000)
        clock.advance(1_000 + late_ms)
        session.get("Q1")
        report = session.get(REPLIES)
        assert report is not None
        assert report.descriptor.feedback == feedback
        assert session.get(REPLIES) is None


@pytest.mark.parametrize(
    ("format_name", "feedbacks"), [("MQDEAD", []), ("MQXMIT", [c.MQFB_COD]), ("MQSTR", [259, 260])]
)
def test_R_no_coa_for_xmit_and_dead_and_no_cod_for_dead(
    manager: QueueManager, session: Session, format_name: str, feedbacks: list[int]
) -> None:
    report = c.MQRO_COA | c.MQRO_COD
    session.put("Q1", b"x", report=report, reply_to_q=REPLIES, format_name=format_name)
    assert session.get("Q1") is not None
    found = []
    while (message := session.get(REPLIES)) is not None:
        found.append(message.descriptor.feedback)
    assert found == feedbacks


@pytest.mark.parametrize("delay_ms", [0, 5_000])
def test_R_pan_nan_and_activity_are_left_to_the_application(
    manager: QueueManager, session: Session, clock: VirtualClock, delay_ms: int
) -> None:
    options = c.MQRO_PAN | c.MQRO_NAN | c.MQRO_ACTIVITY
    session.put("Q1", b"x", report=options, reply_to_q=REPLIES, delay_ms=delay_ms)
    clock.advance(delay_ms)
    message = session.get("Q1")
    assert message is not None
    assert message.descriptor.report == options
    assert session.get(REPLIES) is None


@CAUSES
@pytest.mark.parametrize(
    ("attributes", "reason"),
    [
        ({"MAXDEPTH": 0}, rc.MQRC_Q_FULL),
        ({"PUT": c.MQQA_PUT_INHIBITED}, rc.MQRC_PUT_INHIBITED),
        ({"MAXMSGL": 1}, rc.MQRC_MSG_TOO_BIG_FOR_Q),
        (None, rc.MQRC_UNKNOWN_OBJECT_NAME),
    ],
)
def test_R4_undeliverable_report_goes_to_the_dead_letter_queue(
    manager: QueueManager,
    cause: Cause,
    attributes: dict[str, int] | None,
    reason: int,
    new_session: NewSession,
) -> None:
    """With the failure as Reason; the original goes its way all the same."""
    original = asking(cause, cause.value * (DATA | FULL) | c.MQRO_DISCARD_MSG)
    if attributes is None:
        original = original._replace(reply_to_q="NOWHERE")
    else:
        alter(manager, REPLIES, **attributes)
    cause_report(manager, cause, original)
    with new_session(manager) as session:
        dead = session.get(DEAD)
        assert session.get(DEAD) is None
    assert dead is not None
    header = DLH.unpack(dead.body)
    assert header["Reason"] == reason
    assert header["DestQName"] == original.reply_to_q
    assert header["Format"] == "MQSTR"
    assert dead.body[172:] == BODY
    assert dead.descriptor.feedback == FEEDBACK[cause]
    assert dead.correl_id == MSG_ID
    assert manager.curdepth("Q1") == (1 if cause is Cause.COA else 0)


def test_C1_R4_a_model_queue_takes_no_report(manager: QueueManager, session: Session) -> None:
    """Nobody has opened it: no dynamic queue is made, and the report is a dead letter."""
    assert manager.mqsc("DEFINE QMODEL(MODEL)").ok
    session.put("Q1", b"x", report=c.MQRO_COD, reply_to_q="MODEL")
    assert session.get("Q1") is not None
    dead = session.get(DEAD)
    assert dead is not None
    header = DLH.unpack(dead.body)
    assert (header["Reason"], header["DestQName"]) == (rc.MQRC_UNKNOWN_OBJECT_NAME, "MODEL")


@pytest.mark.parametrize("cause", [Cause.EXPIRATION, Cause.COA, Cause.COD])
@pytest.mark.parametrize("dead_letter_queue", ["", DEAD])
def test_R4_a_report_that_says_MQRO_DISCARD_MSG_is_discarded_where_nobody_takes_it(
    manager: QueueManager, cause: Cause, dead_letter_queue: str
) -> None:
    """It does not stay in the network; its original goes its way all the same."""
    alter(manager, REPLIES, MAXDEPTH=0)
    alter_manager(manager, DEADQ=dead_letter_queue)
    passes = c.MQRO_PASS_DISCARD_AND_EXPIRY
    cause_report(manager, cause, asking(cause, passes | c.MQRO_DISCARD_MSG))
    assert manager.curdepth(DEAD) == 0
    assert manager.curdepth("Q1") == (1 if cause is Cause.COA else 0)
    # Without MQRO_DISCARD_MSG there is nothing to pass on.
    cause_report(manager, cause, asking(cause, passes))
    assert manager.curdepth(DEAD) == bool(dead_letter_queue)


def test_R4_D22_the_report_of_a_failed_release_goes_to_the_dead_letter_queue_all_the_same(
    manager: QueueManager,
    new_session: NewSession,
) -> None:
    """Only the message is discarded as it asks; so it is documented of the delay processor."""
    alter(manager, REPLIES, MAXDEPTH=0)
    discards = c.MQRO_PASS_DISCARD_AND_EXPIRY | c.MQRO_DISCARD_MSG
    cause_report(manager, Cause.EXCEPTION, asking(Cause.EXCEPTION, discards))
    assert ends(manager, STAGING)[0].outcome == "discarded"
    with new_session(manager) as session:
        [letter] = session.browse(DEAD)
    assert letter.descriptor.feedback == rc.MQRC_PUT_INHIBITED
    assert letter.descriptor.report == c.MQRO_DISCARD_MSG
    assert DLH.unpack(letter.body)["Reason"] == rc.MQRC_Q_FULL


@pytest.mark.in_process
@pytest.mark.parametrize("persistence", [c.MQPER_NOT_PERSISTENT, c.MQPER_PERSISTENT])
def test_R5_an_exception_report_that_is_discarded_as_it_asks_holds_no_message_up(
    manager: QueueManager, unit: Session, persistence: int
) -> None:
    alter(manager, REPLIES, MAXDEPTH=0)
    alter_manager(manager, DEADQ="")
    discards = c.MQRO_PASS_DISCARD_AND_EXPIRY | c.MQRO_DISCARD_MSG
    descriptor = asking(Cause.EXCEPTION, discards)._replace(persistence=persistence)
    put_md(unit, "Q1", b"x", descriptor, options=c.MQPMO_SET_ALL_CONTEXT)
    message = unit.get("Q1")
    assert message is not None
    assert report_exception(manager.engine, unit, message, rc.MQRC_BACKOUT_THRESHOLD_REACHED)
    unit.commit()
    assert manager.curdepth(REPLIES) == 0


@pytest.mark.parametrize("dead_letter_queue", ["", "NOWHERE", DEAD])
@pytest.mark.parametrize("cause", [Cause.EXPIRATION, Cause.COA, Cause.COD])
def test_R5_report_that_reaches_no_queue_is_dropped_and_the_rest_happens(
    manager: QueueManager, cause: Cause, dead_letter_queue: str
) -> None:
    alter(manager, REPLIES, MAXDEPTH=0)
    alter(manager, DEAD, MAXDEPTH=0)
    alter_manager(manager, DEADQ=dead_letter_queue)
    cause_report(manager, cause, asking(cause))
    assert manager.curdepth(DEAD) == 0
    assert manager.curdepth("Q1") == (1 if cause is Cause.COA else 0)
    expected = {
        Cause.EXPIRATION: [End("expired", 2_000)],
        Cause.COD: [End("got", 500)],
        Cause.COA: [],
    }
    assert ends(manager, "Q1") == expected[cause]


def test_R7_expiration_report_survives_a_backout_of_its_getter(
    manager: QueueManager, unit: Session, clock: VirtualClock
) -> None:
    unit.put("Q1", b"x", report=c.MQRO_EXPIRATION, reply_to_q=REPLIES, time_to_live_ms=1)
    unit.commit()
    clock.advance(1)
    assert unit.get("Q1") is None
    unit.backout()
    assert manager.curdepth(REPLIES) == 1


def test_R10_report_that_expires_creates_no_report(
    manager: QueueManager, session: Session, clock: VirtualClock
) -> None:
    original = asking(Cause.EXPIRATION, c.MQRO_PASS_DISCARD_AND_EXPIRY | c.MQRO_DISCARD_MSG)
    cause_report(manager, Cause.EXPIRATION, original)
    assert manager.curdepth(REPLIES) == 1
    clock.advance(59_999)
    assert manager.counts(REPLIES).live == 1
    clock.advance(1)
    assert session.get(REPLIES) is None
    assert ends(manager, REPLIES) == [End("expired", 62_000)]
    assert (manager.curdepth(REPLIES), manager.curdepth(DEAD)) == (0, 0)


def test_X3_cap_of_the_reply_queue_limits_a_report(manager: QueueManager) -> None:
    """A report is put like any message."""
    alter(manager, REPLIES, CAPEXPRY=50)
    report = report_of(manager, Cause.COD, asking(Cause.COD))
    assert report.remaining_tenths == 50
