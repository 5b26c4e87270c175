"""Requests that end otherwise than by a reply: no header, refused, failed too often."""

from __future__ import annotations

import pytest

from mayfly import QueueManager
from mayfly.engine import Session
from mayfly.ims_bridge import ImsBridge, ImsNak
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.structures import DLH
from mayfly.pymqi import IIH
from mayfly.testing import VirtualClock
from tests.ims_bridge.scene import (
    BACKOUT,
    DEAD,
    IMS,
    REPLIES,
    answering,
    ask,
    asking,
    dead_header,
    failing,
    got,
)
from tests.spec.scene import put_md, refused

GOOD = IIH().pack()
DLH_BYTES = 172


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"question",
        GOOD[:83],
        b"CIH " + GOOD[4:],
        GOOD[:4] + bytes(4) + GOOD[8:],
        GOOD[:8] + (83).to_bytes(4, "little") + GOOD[12:],
        GOOD[:8] + (85).to_bytes(4, "little") + GOOD[12:] + b"x",
    ],
    ids=["empty", "none", "short", "StrucId", "Version", "StrucLength 83", "StrucLength 85"],
)
def test_bad_header_goes_to_the_dead_letter_queue_and_its_life_goes_on(
    manager: QueueManager, session: Session, clock: VirtualClock, body: bytes
) -> None:
    called: list[None] = []
    given = {"msg_id": b"M" * 24, "correl_id": b"C" * 24, "life_ms": 20_000}
    put_md(session, IMS, body, asking(), **given)
    clock.advance(5_000)
    assert answering(manager, lambda: called.append(None)).run_once() == 1
    dead = got(session, DEAD)
    assert dead_header(dead) == (c.MQFB_IIH_ERROR, IMS)
    assert dead.body[DLH_BYTES:] == body
    by = DLH.unpack(dead.body)
    assert (by["PutApplType"], by["PutApplName"]) == (c.MQAT_UNIX, "mayfly-ims")
    assert (dead.msg_id, dead.correl_id, dead.remaining_ms) == (b"M" * 24, b"C" * 24, 15_000)
    assert (manager.curdepth(IMS), manager.curdepth(REPLIES), called) == (0, 0, [])


@pytest.mark.parametrize(("waited_ms", "is_there"), [(14_999, True), (15_000, False)])
def test_E21_dead_request_expires_at_its_deadline_with_its_report(
    manager: QueueManager, session: Session, clock: VirtualClock, waited_ms: int, is_there: bool
) -> None:
    put_md(session, IMS, b"bad", asking(report=c.MQRO_EXPIRATION), life_ms=20_000)
    clock.advance(5_000)
    answering(manager).run_once()
    clock.advance(waited_ms)
    assert (session.get(DEAD) is not None) is is_there
    assert manager.curdepth(REPLIES) == (not is_there)


@pytest.mark.parametrize("discard", [0, c.MQRO_DISCARD_MSG])
def test_bad_header_is_reported_and_discarded_as_the_report_options_ask(
    manager: QueueManager, session: Session, discard: int
) -> None:
    report = c.MQRO_EXCEPTION_WITH_FULL_DATA | discard
    msg_id = put_md(session, IMS, b"bad", asking(report=report)).msg_id
    assert answering(manager).run_once() == 1
    told = got(session)
    assert (told.descriptor.msg_type, told.descriptor.feedback) == (c.MQMT_REPORT, 296)
    assert (told.correl_id, told.body) == (msg_id, b"bad")
    assert manager.curdepth(DEAD) == (0 if discard else 1)
    assert manager.curdepth(IMS) == 0


def test_damaged_properties_before_the_header_are_refused_by_their_reason(
    manager: QueueManager, session: Session
) -> None:
    put_md(session, IMS, b"RFH damaged", asking(format="MQHRF2"))
    answering(manager).run_once()
    assert dead_header(got(session, DEAD)) == (rc.MQRC_RFH_ERROR, IMS)


@pytest.mark.parametrize(
    ("nak", "feedback"),
    [
        (ImsNak(1), 301),
        (ImsNak(0x19), 325),
        (ImsNak(99), 399),
        (ImsNak(0x1A), 600),
        (ImsNak(0x1A, 255), 855),
    ],
)
def test_nak_ends_the_request_at_once_with_its_feedback(
    manager: QueueManager, session: Session, nak: ImsNak, feedback: int
) -> None:
    ask(session, report=c.MQRO_EXCEPTION)
    assert failing(manager, nak).run_once() == 1
    assert nak.feedback == feedback
    dead = got(session, DEAD)
    assert dead_header(dead) == (feedback, IMS)
    assert dead.body[DLH_BYTES:] == GOOD + b"question"
    assert got(session).descriptor.feedback == feedback
    assert session.get(REPLIES) is None


@pytest.mark.parametrize(
    ("codes", "name"), [((0,), "sense_code 0"), ((100,), "sense_code 100"), ((26, 256), "256")]
)
def test_nak_refuses_codes_that_no_feedback_stands_for(codes: tuple[int, ...], name: str) -> None:
    with pytest.raises(ValueError, match=name):
        ImsNak(*codes)


@pytest.mark.parametrize("error", [OSError("no disk"), SystemExit(0)], ids=["error", "exit"])
def test_G8_request_whose_transaction_raises_comes_again(
    manager: QueueManager, session: Session, error: BaseException
) -> None:
    ask(session, data=b"first")
    ask(session, data=b"second")
    assert failing(manager, error).run_once() == 0
    assert (manager.curdepth(IMS), manager.curdepth(REPLIES), manager.curdepth(DEAD)) == (2, 0, 0)
    counts = [(one.body[84:], one.backout_count) for one in session.browse(IMS)]
    assert counts == [(b"first", 1), (b"second", 0)]
    assert answering(manager).run_once() == 2


@pytest.mark.parametrize("answer", ["text", 5])
def test_answer_that_is_not_bytes_is_a_failure_of_the_transaction(
    manager: QueueManager, session: Session, answer: object
) -> None:
    ask(session)
    bridge = ImsBridge(manager, queue=IMS, transaction=lambda _request, _iih: answer)  # type: ignore[arg-type,return-value]  # wrong on purpose
    assert bridge.run_once() == 0
    assert got(session, IMS).backout_count == 1


@pytest.mark.parametrize("threshold", [1, 3])
def test_request_that_failed_BOTHRESH_times_goes_to_BOQNAME_as_it_is(
    manager: QueueManager, session: Session, clock: VirtualClock, threshold: int
) -> None:
    assert manager.mqsc(f"ALTER QLOCAL({IMS}) BOTHRESH({threshold}) BOQNAME({BACKOUT})").ok
    msg_id = ask(session, life_ms=20_000)
    clock.advance(5_000)
    bridge = failing(manager, OSError("no disk"))
    assert [bridge.run_once() for _ in range(threshold + 1)] == [0] * threshold + [1]
    moved = got(session, BACKOUT)
    assert (moved.msg_id, moved.body, moved.remaining_ms) == (msg_id, GOOD + b"question", 15_000)
    assert moved.descriptor.format == "MQIMS"
    assert (manager.curdepth(IMS), manager.curdepth(DEAD)) == (0, 0)


@pytest.mark.parametrize("how", ["dead letter", "BOQNAME"])
def test_Q2_request_without_context_stays_without(
    manager: QueueManager, session: Session, clock: VirtualClock, how: str
) -> None:
    assert manager.mqsc(f"ALTER QLOCAL({IMS}) BOTHRESH(1) BOQNAME({BACKOUT})").ok
    put_md(session, IMS, GOOD, asking(), options=c.MQPMO_NO_CONTEXT)
    clock.advance(5_000)
    bridge = failing(manager, ImsNak(1) if how == "dead letter" else OSError("no disk"))
    while manager.curdepth(IMS):
        bridge.run_once()
    moved = got(session, DEAD if how == "dead letter" else BACKOUT)
    assert (moved.put_date, moved.put_time) == ("", "")


@pytest.mark.parametrize("queue", ["", "NOWHERE"])
def test_request_that_failed_BOTHRESH_times_goes_to_the_dead_letter_queue_without_BOQNAME(
    manager: QueueManager, session: Session, queue: str
) -> None:
    assert manager.mqsc(f"ALTER QLOCAL({IMS}) BOTHRESH(1) BOQNAME({queue or chr(39) * 2})").ok
    ask(session, report=c.MQRO_EXCEPTION)
    bridge = failing(manager, OSError("no disk"))
    assert (bridge.run_once(), bridge.run_once()) == (0, 1)
    assert dead_header(got(session, DEAD)) == (c.MQFB_IMS_ERROR, IMS)
    assert got(session).descriptor.feedback == c.MQFB_IMS_ERROR


@pytest.mark.parametrize("late_ms", [-1, 0, 1])
def test_E15_failed_request_expires_on_the_queue_at_its_deadline(
    manager: QueueManager, session: Session, clock: VirtualClock, late_ms: int
) -> None:
    ask(session, life_ms=20_000, report=c.MQRO_EXPIRATION)
    bridge = failing(manager, OSError("no disk"))
    assert bridge.run_once() == 0
    clock.advance(20_000 + late_ms)
    calls: list[None] = []
    answering(manager, lambda: calls.append(None)).run_once()
    assert len(calls) == (1 if late_ms < 0 else 0)
    assert got(session).descriptor.feedback == (0 if late_ms < 0 else c.MQFB_EXPIRATION)


@pytest.mark.parametrize("body", [b"bad", GOOD + b"question"], ids=["request", "reply"])
def test_what_cannot_go_to_the_dead_letter_queue_either_stays_and_is_told(
    manager: QueueManager, session: Session, body: bytes
) -> None:
    put_md(session, IMS, body, asking())
    assert manager.mqsc("DELETE QLOCAL(REPLIES)\nALTER QLOCAL(DEAD) PUT(DISABLED)").ok
    with refused(rc.MQRC_PUT_INHIBITED):
        answering(manager).run_once()
    (left,) = session.browse(IMS)
    assert (left.body, left.backout_count) == (body, 1)
    assert manager.counts(IMS).locked == 0


def test_R6_reply_goes_only_where_the_asker_may_put(
    manager: QueueManager, session: Session
) -> None:
    assert manager.mqsc("SET AUTHREC OBJTYPE(QMGR) PRINCIPAL('anna') AUTHADD(CONNECT)").ok
    put_md(
        session,
        IMS,
        GOOD,
        asking(user_identifier="anna"),
        options=c.MQPMO_SET_ALL_CONTEXT,
    )
    assert answering(manager).run_once() == 1
    assert dead_header(got(session, DEAD)) == (rc.MQRC_NOT_AUTHORIZED, REPLIES)


def test_reply_counts_in_the_unit_of_work_of_its_request(
    manager: QueueManager, session: Session
) -> None:
    assert manager.mqsc("ALTER QMGR MAXUMSGS(1)").ok
    ask(session)
    with refused(rc.MQRC_SYNCPOINT_LIMIT_REACHED):
        answering(manager).run_once()
    assert (manager.curdepth(IMS), manager.curdepth(REPLIES), manager.curdepth(DEAD)) == (1, 0, 0)
    assert manager.mqsc("ALTER QMGR MAXUMSGS(2)").ok
    assert answering(manager).run_once() == 1
    assert manager.curdepth(REPLIES) == 1
