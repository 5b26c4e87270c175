"""P13: puts with MQPMO_ASYNC_RESPONSE fail silently, and Session.status (MQSTAT) tells of it."""

from __future__ import annotations

import pytest

from mayfly import QueueManager
from mayfly.engine import Handle, PutRequest, Session
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.verbs.facts import Status
from tests.over import NewSession
from tests.spec.scene import OUTPUT, V2, alias, alter, local, refused

PERSISTENT = V2._replace(persistence=c.MQPER_PERSISTENT)
TOO_HIGH = V2._replace(priority=12)
FULL = Status(
    c.MQCC_FAILED,
    rc.MQRC_Q_FULL,
    failure_count=1,
    object_type=c.MQOT_LOCAL_Q,
    object_name="Q1",
    queue="Q1",
    manager="QM1",
)


@pytest.fixture
def full(queue_manager: QueueManager, session: Session) -> Handle:
    """``Q1``, which has room for one message, open for output."""
    local(queue_manager, MAXDEPTH=1)
    return session.open("Q1", OUTPUT)


def test_P13_without_asynchronous_puts_there_is_nothing_to_tell(
    session: Session, full: Handle
) -> None:
    full.put(b"x", PutRequest(V2))
    with refused(rc.MQRC_Q_FULL):
        full.put(b"x", PutRequest(V2))
    assert session.status() == Status()


@pytest.mark.in_process
def test_P13_a_failure_is_told_once(
    queue_manager: QueueManager, session: Session, full: Handle
) -> None:
    assert full.put_async(b"first", PutRequest(V2)) is not None
    assert full.put_async(b"second", PutRequest(V2)) is None
    assert queue_manager.curdepth("Q1") == 1
    assert session.status() == FULL._replace(success_count=1)
    assert session.status() == Status()


@pytest.mark.in_process
def test_P13_the_first_failure_stays_and_replaces_a_warning(
    queue_manager: QueueManager, session: Session, full: Handle
) -> None:
    """2049 warns; 2053, then 2051 fail: the first failure is what is told."""
    result = full.put_async(b"x", PutRequest(TOO_HIGH))
    assert result is not None
    assert result.warning == rc.MQRC_NONE
    assert full.put_async(b"x", PutRequest(V2)) is None
    alter(queue_manager, "Q1", PUT=c.MQQA_PUT_INHIBITED)
    assert full.put_async(b"x", PutRequest(V2)) is None
    assert session.status() == FULL._replace(warning_count=1, failure_count=2)


@pytest.mark.in_process
def test_P13_a_warning_alone_is_told(session: Session, full: Handle) -> None:
    full.put_async(b"x", PutRequest(TOO_HIGH))
    warned = FULL._replace(comp=c.MQCC_WARNING, reason=rc.MQRC_PRIORITY_EXCEEDS_MAXIMUM)
    assert session.status() == warned._replace(warning_count=1, failure_count=0)


@pytest.mark.in_process
def test_P13_the_name_opened_and_where_it_leads(
    queue_manager: QueueManager, session: Session, full: Handle
) -> None:
    alias(queue_manager, "A1", "Q1")
    session.put("Q1", b"x")
    assert session.open("A1", OUTPUT).put_async(b"x", PutRequest(V2)) is None
    assert session.status() == FULL._replace(object_type=c.MQOT_ALIAS_Q, object_name="A1")


def test_P13_a_persistent_message_outside_of_syncpoint_is_told_of_at_once(
    queue_manager: QueueManager, session: Session, full: Handle
) -> None:
    session.put("Q1", b"x")
    with refused(rc.MQRC_Q_FULL):
        full.put_async(b"x", PutRequest(PERSISTENT))
    alter(queue_manager, "Q1", DEFPSIST=c.MQPER_PERSISTENT)
    with refused(rc.MQRC_Q_FULL):
        full.put_async(b"x", PutRequest(V2))
    assert session.status() == Status()
    session.get("Q1")
    result = full.put_async(b"x", PutRequest(TOO_HIGH))
    assert result is not None
    assert result.warning == rc.MQRC_PRIORITY_EXCEEDS_MAXIMUM
    assert session.status() == Status()


def test_P13_a_unit_of_work_without_one_of_its_messages_is_backed_out_by_its_commit(
    queue_manager: QueueManager, unit: Session
) -> None:
    local(queue_manager, MAXDEPTH=2)
    local(queue_manager, "Q2")
    with queue_manager.session() as other:
        other.put("Q1", b"got")
    message = unit.get("Q1")
    assert message is not None
    handle, second = unit.open("Q1", OUTPUT), unit.open("Q2", OUTPUT)
    for _ in range(3):
        handle.put_async(b"x", PutRequest(PERSISTENT), c.MQPMO_SYNCPOINT)
    second.put_async(b"y", PutRequest(PERSISTENT), c.MQPMO_SYNCPOINT)
    with refused(rc.MQRC_BACKED_OUT):
        unit.commit()
    status = unit.status()
    assert (status.reason, status.success_count, status.failure_count) == (rc.MQRC_Q_FULL, 3, 1)
    assert (queue_manager.curdepth("Q1"), queue_manager.curdepth("Q2")) == (1, 0)
    message = unit.get("Q1")
    assert message is not None
    assert (message.body, message.backout_count) == (b"got", 1)
    unit.commit()
    assert queue_manager.curdepth("Q1") == 0


def test_P13_a_backout_forgets_the_failed_put(queue_manager: QueueManager, unit: Session) -> None:
    local(queue_manager, MAXDEPTH=1)
    handle = unit.open("Q1", OUTPUT)
    for _ in range(2):
        handle.put_async(b"x", PutRequest(PERSISTENT), c.MQPMO_SYNCPOINT)
    unit.backout()
    handle.put_async(b"y", PutRequest(PERSISTENT), c.MQPMO_SYNCPOINT)
    unit.commit()
    assert queue_manager.curdepth("Q1") == 1


def test_P13_a_failed_put_outside_of_syncpoint_says_nothing_of_the_unit_of_work(
    queue_manager: QueueManager, unit: Session
) -> None:
    local(queue_manager, MAXDEPTH=1)
    handle = unit.open("Q1", OUTPUT)
    handle.put_async(b"x", PutRequest(PERSISTENT), c.MQPMO_SYNCPOINT)
    handle.put_async(b"x", PutRequest(V2._replace(persistence=c.MQPER_NOT_PERSISTENT)))
    unit.commit()
    assert queue_manager.curdepth("Q1") == 1


def test_P13_closing_a_unit_of_work_without_one_of_its_messages_backs_it_out(
    queue_manager: QueueManager, unit: Session
) -> None:
    local(queue_manager, MAXDEPTH=1)
    handle = unit.open("Q1", OUTPUT)
    for _ in range(2):
        handle.put_async(b"x", PutRequest(PERSISTENT), c.MQPMO_SYNCPOINT)
    with refused(rc.MQRC_BACKED_OUT):
        unit.close()
    assert queue_manager.curdepth("Q1") == 0


def test_P13_a_wrong_call_is_raised_at_once(
    queue_manager: QueueManager, session: Session, full: Handle
) -> None:
    for descriptor, options, reason in (
        (V2._replace(msg_type=0), c.MQPMO_NONE, rc.MQRC_MSG_TYPE_ERROR),
        (V2, c.MQPMO_ASYNC_RESPONSE | c.MQPMO_SYNC_RESPONSE, rc.MQRC_OPTIONS_ERROR),
        (V2, c.MQPMO_SET_ALL_CONTEXT, rc.MQRC_NOT_OPEN_FOR_SET_ALL),
    ):
        with refused(reason):
            full.put_async(b"x", PutRequest(descriptor), options)
    full.close()
    with refused(rc.MQRC_HOBJ_ERROR):
        full.put_async(b"x", PutRequest(V2))
    assert session.status() == Status()


@pytest.mark.in_process
def test_P13_each_session_is_told_of_its_own(
    queue_manager: QueueManager, session: Session, full: Handle, new_session: NewSession
) -> None:
    session.put("Q1", b"x")
    full.put_async(b"x", PutRequest(V2))
    with new_session(queue_manager) as other:
        assert other.status() == Status()
    assert session.status() == FULL
    session.close()
    with refused(rc.MQRC_HCONN_ERROR):
        session.status()
