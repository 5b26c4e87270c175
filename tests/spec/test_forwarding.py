"""A message that was got is put elsewhere as the same message: rules Q1, Q2, E21, E23."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mayfly import QueueManager
from mayfly.engine import Session, forward, put_dead_letter, report_exception
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.structures import DLH, XQH
from mayfly.testing import VirtualClock
from mayfly.verbs.messages import Message
from tests.over import NewSession
from tests.spec.report_scene import BODY, CORREL_ID, MSG_ID, ORIGINAL
from tests.spec.scene import (
    DEAD,
    REPLIES,
    START_MS,
    V2,
    alter,
    alter_manager,
    local,
    put_md,
    refused,
)

WHOLE = ORIGINAL._replace(offset=0, report=c.MQRO_NONE)
OWN_CONTEXT = {"options": c.MQPMO_SET_ALL_CONTEXT}


@pytest.fixture
def qm(manager: QueueManager) -> QueueManager:
    """The queue manager with a second queue."""
    local(manager, "Q2")
    return manager


@pytest.fixture
def session(qm: QueueManager, new_session: NewSession) -> Iterator[Session]:
    """Who gets the message and puts it on."""
    with new_session(qm, transacted=True, program="forwarder") as opened:
        yield opened


def put_and_get(qm: QueueManager, session: Session, **more: object) -> Message:
    """Put a message with every field set and get it in the unit of work."""
    with qm.session() as putter:
        fields = {"msg_id": MSG_ID, "correl_id": CORREL_ID, **OWN_CONTEXT, **more}
        put_md(putter, "Q1", BODY, fields.pop("descriptor", WHOLE), **fields)  # type: ignore[arg-type]  # a Descriptor, or WHOLE
    message = session.get("Q1")
    assert message is not None
    return message


@pytest.mark.parametrize("flags", [c.MQMF_NONE, c.MQMF_MSG_IN_GROUP, c.MQMF_LAST_MSG_IN_GROUP])
def test_Q2_it_is_the_same_message_elsewhere(
    qm: QueueManager, session: Session, clock: VirtualClock, flags: int
) -> None:
    message = put_and_get(qm, session, descriptor=WHOLE._replace(msg_flags=flags))
    assert message.descriptor.msg_flags & flags == flags
    clock.advance(90_000_000)
    forward(qm.engine, session, "Q2", message)
    session.commit()
    moved = session.get("Q2")
    assert moved is not None
    assert (moved.body, moved.msg_id, moved.correl_id) == (BODY, MSG_ID, CORREL_ID)
    assert (moved.put_date, moved.put_time) == (message.put_date, message.put_time)
    fields = message.descriptor._asdict()
    dates = {"put_date": message.put_date, "put_time": message.put_time}
    assert moved.descriptor._asdict() == {**fields, **dates}
    assert (moved.put_ms, moved.backout_count) == (START_MS + 90_000_000, 0)


@pytest.mark.in_process
@pytest.mark.parametrize("by", ["forward", "put_dead_letter"])
@pytest.mark.parametrize(("after_ms", "present"), [(-1, 1), (0, 0), (1, 0)])
def test_E21_its_life_runs_on_to_the_same_deadline(
    qm: QueueManager,
    session: Session,
    clock: VirtualClock,
    by: str,
    after_ms: int,
    present: int,
    new_session: NewSession,
) -> None:
    message = put_and_get(qm, session, life_ms=10_000)
    clock.advance(6_000)
    if by == "put_dead_letter":
        put_dead_letter(qm.engine, session, message, rc.MQRC_Q_FULL)
    else:
        forward(qm.engine, session, "Q2", message)
    session.commit()
    clock.advance(4_000 + after_ms)
    with new_session(qm) as looking:
        assert len(list(looking.browse(DEAD if by == "put_dead_letter" else "Q2"))) == present


def test_E21_what_ends_at_this_very_moment_is_put_and_expires_a_millisecond_later(
    qm: QueueManager, session: Session, clock: VirtualClock
) -> None:
    """The get was in time, and a put takes no life of 0."""
    message = put_and_get(qm, session, life_ms=10_000)
    clock.advance(60_000)
    forward(qm.engine, session, "Q2", message)
    session.commit()
    assert [moved.remaining_ms for moved in session.browse("Q2")] == [1]
    clock.advance(1)
    assert session.get("Q2") is None


def test_E21_unlimited_stays_so_and_a_cap_of_the_target_lowers(
    qm: QueueManager, session: Session
) -> None:
    local(qm, "CAPPED", CAPEXPRY=50)
    message = put_and_get(qm, session)
    forward(qm.engine, session, "Q2", message)
    forward(qm.engine, session, "CAPPED", message)
    session.commit()
    ends = [m.expire_at_ms for name in ("Q2", "CAPPED") for m in session.browse(name)]
    assert ends == [None, START_MS + 5_000]


@pytest.mark.in_process
def test_a_message_without_context_gets_none(
    qm: QueueManager, session: Session, clock: VirtualClock
) -> None:
    message = put_and_get(qm, session, descriptor=V2, options=c.MQPMO_NO_CONTEXT)
    clock.advance(5_000)
    forward(qm.engine, session, "Q2", message)
    put_dead_letter(qm.engine, session, message, rc.MQRC_Q_FULL)
    for name in ("Q2", DEAD):
        moved = session.get(name)
        assert moved is not None
        assert (moved.put_date, moved.put_time) == ("", "")
        assert moved.descriptor.put_appl_type == c.MQAT_NO_CONTEXT


def test_no_correl_id_stays_none(qm: QueueManager, session: Session) -> None:
    message = put_and_get(qm, session, correl_id=b"")
    forward(qm.engine, session, "Q2", message)
    assert session.get("Q2", correl_id=CORREL_ID) is None
    moved = session.get("Q2")
    assert moved is not None
    assert moved.correl_id == bytes(24)


@pytest.mark.in_process
def test_G8_a_backout_leaves_it_where_it_was(qm: QueueManager, session: Session) -> None:
    message = put_and_get(qm, session, descriptor=WHOLE._replace(report=c.MQRO_EXCEPTION))
    forward(qm.engine, session, "Q2", message)
    put_dead_letter(qm.engine, session, message, rc.MQRC_Q_FULL)
    assert report_exception(qm.engine, session, message, rc.MQRC_Q_FULL)
    session.backout()
    assert [qm.curdepth(name) for name in ("Q1", "Q2", DEAD, REPLIES)] == [1, 0, 0, 0]


@pytest.mark.in_process
def test_Q1_a_dead_letter_says_why_from_where_and_by_whom(
    qm: QueueManager, session: Session, clock: VirtualClock
) -> None:
    message = put_and_get(qm, session)
    clock.advance(5_000)
    put_dead_letter(qm.engine, session, message, c.MQFB_APPL_CANNOT_BE_STARTED)
    dead = session.get(DEAD)
    assert dead is not None
    header = DLH.unpack(dead.body)
    assert message.queue == "Q1"
    assert (header["Reason"], header["DestQName"], header["DestQMgrName"]) == (265, "Q1", "QM1")
    assert (header["PutApplType"], header["PutApplName"]) == (c.MQAT_UNIX, "forwarder")
    assert (header["PutDate"], header["PutTime"]) == ("20231114", "22132500")
    assert (header["Format"], header["Encoding"], dead.descriptor.format) == (
        WHOLE.format,
        WHOLE.encoding,
        "MQDEAD",
    )
    assert (dead.body[172:], dead.msg_id) == (BODY, MSG_ID)


def test_E23_to_another_queue_manager_it_travels_with_what_is_left(
    qm: QueueManager, session: Session, clock: VirtualClock
) -> None:
    local(qm, "QM2", USAGE=1)
    message = put_and_get(qm, session, life_ms=10_000)
    clock.advance(6_000)
    forward(qm.engine, session, "FAR@QM2", message)
    session.commit()
    (travelling,) = session.browse("QM2")
    header = XQH.unpack(travelling.body)
    assert (header["RemoteQName"], header["RemoteQMgrName"]) == ("FAR", "QM2")
    assert (header["MsgDesc.Expiry"], travelling.remaining_tenths) == (40, 40)
    assert header["MsgDesc.MsgId"] == MSG_ID
    assert (header["MsgDesc.PutDate"], header["MsgDesc.PutTime"]) == (
        message.put_date,
        message.put_time,
    )


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("", rc.MQRC_UNKNOWN_OBJECT_NAME),
        ("NOWHERE", rc.MQRC_UNKNOWN_OBJECT_NAME),
        ("SYSTEM.DEFAULT.MODEL.QUEUE", rc.MQRC_UNKNOWN_OBJECT_NAME),
        ("FAR@QM9", rc.MQRC_UNKNOWN_REMOTE_Q_MGR),
        ("Q2", rc.MQRC_PUT_INHIBITED),
    ],
)
def test_what_cannot_be_forwarded_is_got_still(
    qm: QueueManager, session: Session, name: str, reason: int
) -> None:
    """A model queue's dynamic queue would end with the message."""
    alter(qm, "Q2", PUT=c.MQQA_PUT_INHIBITED)
    message = put_and_get(qm, session)
    with refused(reason):
        forward(qm.engine, session, name, message)
    session.backout()
    assert qm.curdepth("Q1") == 1


@pytest.mark.in_process
def test_without_a_dead_letter_queue_nothing_is_buried(qm: QueueManager, session: Session) -> None:
    alter_manager(qm, DEADQ="")
    message = put_and_get(qm, session)
    with refused(rc.MQRC_UNKNOWN_OBJECT_NAME):
        put_dead_letter(qm.engine, session, message, rc.MQRC_Q_FULL)


@pytest.mark.in_process
def test_an_exception_report_that_nobody_takes_is_told(qm: QueueManager, session: Session) -> None:
    alter_manager(qm, DEADQ="")
    alter(qm, REPLIES, PUT=c.MQQA_PUT_INHIBITED)
    owing = WHOLE._replace(report=c.MQRO_EXCEPTION)
    message = put_and_get(qm, session, descriptor=owing)
    assert not report_exception(qm.engine, session, message, rc.MQRC_Q_FULL)
    alter(qm, REPLIES, PUT=c.MQQA_PUT_ALLOWED)
    assert report_exception(qm.engine, session, message, rc.MQRC_Q_FULL)
    report = session.get(REPLIES)
    assert report is not None
    assert (report.descriptor.feedback, report.correl_id) == (rc.MQRC_Q_FULL, MSG_ID)
