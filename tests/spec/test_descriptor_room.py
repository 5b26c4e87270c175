"""What an MQMD has no room for is refused at the put with 2026, wherever the queue is (P1)."""

from __future__ import annotations

from typing import Any

import pytest

from mayfly import QueueManager
from mayfly.engine import Session
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.descriptor import Descriptor
from mayfly.mqi.structures import DLH
from mayfly.testing import VirtualClock
from tests.over import NewSession
from tests.spec.remote_scene import network
from tests.spec.scene import local, put_md, refused

SET_ALL = c.MQPMO_SET_ALL_CONTEXT
QUEUES = ["Q1", "Q1@QM2"]
TEXTS = {
    "format": 8,
    "reply_to_q": 48,
    "reply_to_q_mgr": 48,
    "user_identifier": 12,
    "appl_identity_data": 32,
    "put_appl_name": 28,
    "appl_origin_data": 4,
    "put_date": 8,
    "put_time": 8,
}


@pytest.fixture
def manager(queue_manager: QueueManager) -> QueueManager:
    """A queue manager with Q1, and a way to QM2."""
    local(queue_manager)
    network(queue_manager)
    return queue_manager


def with_all_context(session: Session, queue: str, **fields: Any) -> Descriptor:
    """Put a message whose descriptor is the caller's, and return that of the message."""
    descriptor = Descriptor(**{"reply_to_q": "BACK", **fields})
    return put_md(session, queue, b"x", descriptor, options=SET_ALL).descriptor


@pytest.mark.parametrize("queue", QUEUES)
@pytest.mark.parametrize("field", TEXTS)
def test_P1_a_text_has_the_bytes_of_its_field(
    manager: QueueManager, session: Session, field: str, queue: str
) -> None:
    length = TEXTS[field]
    for full in ("x" * length, "ä" * length, "ä" * (length // 2)):
        found = with_all_context(session, queue, **{field: full})
        assert getattr(found, field) == full
    for longer in ("x" * (length + 1), "ä" * (length + 1), "€" * (length // 3 + 1)):
        with refused(rc.MQRC_MD_ERROR):
            with_all_context(session, queue, **{field: longer})
    assert manager.curdepth("Q1") + manager.curdepth("QM2") == 3


@pytest.mark.parametrize("queue", QUEUES)
@pytest.mark.parametrize(
    "fields",
    [
        {"accounting_token": b"t" * 33},
        {"accounting_token": b"t" * 300},
        {"group_id": b"g" * 25, "msg_flags": c.MQMF_MSG_IN_GROUP, "version": 2},
        {"encoding": 2**31},
        {"coded_char_set_id": -(2**31) - 1},
        {"put_appl_type": 2**40},
        {"priority": 2**31},
        {"original_length": 2**31, "version": 2},
        {"reply_to_q": "\ud800"},
    ],
    ids=str,
)
def test_P1_tokens_and_numbers_have_the_bytes_of_theirs(
    manager: QueueManager, session: Session, queue: str, fields: dict[str, Any]
) -> None:
    with refused(rc.MQRC_MD_ERROR):
        with_all_context(session, queue, **fields)
    assert manager.curdepth("Q1") == manager.curdepth("QM2") == 0


@pytest.mark.parametrize("field", TEXTS)
def test_a_text_ends_at_its_NUL_and_nothing_of_the_message_is_lost(
    manager: QueueManager, session: Session, field: str
) -> None:
    """Kept, it would make a message that nobody can get, and a queue that nobody can read."""
    found = with_all_context(session, "Q1", **{field: "AB\0" + "x" * 60})
    assert getattr(found, field) == "AB"
    message = session.get("Q1")
    assert message is not None
    assert getattr(message.descriptor, field) == "AB"
    assert message.body == b"x"


def test_a_reply_queue_that_ends_before_it_begins_is_none(
    manager: QueueManager, session: Session
) -> None:
    with refused(rc.MQRC_MISSING_REPLY_TO_Q):
        session.put("Q1", b"x", reply_to_q="\0BACK", report=c.MQRO_COA)


@pytest.mark.parametrize(
    ("user", "kept"),
    [("ä" * 13, "ä" * 12), ("😀" * 5, "😀" * 3), ("al\0ice", "al"), ("\ud800", "?")],
)
def test_P6_who_puts_is_cut_to_the_room_of_the_field(
    manager: QueueManager, user: str, kept: str, new_session: NewSession
) -> None:
    with new_session(manager, user, program=user * 3) as session:
        for queue in QUEUES:
            session.put(queue, b"x")
        message = session.get("Q1")
    assert message is not None
    assert message.descriptor.user_identifier == kept
    assert manager.curdepth("QM2") == 1
    assert not manager.is_stopped


@pytest.mark.in_process
@pytest.mark.interpreted  # The compiler's own TypeError says it in other words.
def test_what_is_no_text_is_a_mistake_in_the_program(
    manager: QueueManager, session: Session
) -> None:
    wrong: Any = b"MQSTR"
    with pytest.raises(TypeError, match="PutApplName b'MQSTR' is not a str"):
        with_all_context(session, "Q1", put_appl_name=wrong)
    with pytest.raises(TypeError, match="format_name b'MQSTR'"):
        session.put("Q1", b"x", format_name=wrong)


def test_R4_an_address_that_no_header_has_room_for_does_not_stop_the_queue_manager(
    manager: QueueManager, clock: VirtualClock, session: Session
) -> None:
    """A ReplyToQ may have an ``@``: what stands behind it is longer than a name then."""
    manager.mqsc("ALTER QMGR EXPRYINT(1) DEADQ(SYSTEM.DEAD.LETTER.QUEUE)")
    address = Descriptor(reply_to_q="a@" + "b" * 46, reply_to_q_mgr="QM9", report=c.MQRO_EXPIRATION)
    put_md(session, "Q1", b"x", address, life_ms=1_000)
    clock.advance(60_000)
    assert not manager.is_stopped
    letter = session.get("SYSTEM.DEAD.LETTER.QUEUE")
    assert letter is not None
    header = DLH.unpack(letter.body)
    assert header["Reason"] == rc.MQRC_OBJECT_Q_MGR_NAME_ERROR
    assert (header["DestQName"], header["DestQMgrName"]) == ("a", "b" * 46 + "@Q")
