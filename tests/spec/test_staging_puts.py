"""Applications put on the staging queue, D14, D20, D21: valid headers wait, damaged ones not."""

from collections.abc import Callable

import pytest

from mayfly import QueueManager
from mayfly.engine import Session
from mayfly.engine.delay.delay_processor import RETRY_MS
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.structures import DDH, DLH
from mayfly.testing import VirtualClock
from mayfly.verbs.schedule import Receipt
from tests.over import NewSession
from tests.spec.scene import (
    DEAD,
    REPLIES,
    STAGING,
    START_MS,
    WORKING,
    ZERO_ID,
    End,
    alias,
    alter,
    alter_manager,
    body,
    ends,
    lives,
    local,
    refused,
)

FORMAT = "MQHDDLY"
OWN, OTHER = b"M" * 24, b"N" * 24
Damage = Callable[[bytes], bytes]


def header_for(target: str = "Q1", due_ms: int = START_MS + 5_000, **fields: object) -> bytes:
    """Return the header an application would make."""
    return DDH.pack({"TargetQName": target, "TargetQMgrName": "QM1", "DueTime": due_ms, **fields})


@pytest.mark.parametrize(
    ("header_id", "due_in_ms"), [(OWN, 5_000), (ZERO_ID, 5_000), (OWN, 0), (OWN, -1)]
)
def test_D14_application_s_put_with_a_valid_header_is_delayed(
    any_manager: QueueManager,
    clock: VirtualClock,
    persistent: bool,
    header_id: bytes,
    due_in_ms: int,
    new_session: NewSession,
) -> None:
    """Zeros ask for a new MsgId, a time that has passed for delivery now."""
    local(any_manager)
    header = header_for(
        due_ms=START_MS + due_in_ms,
        OriginalMsgId=header_id,
        OriginalCorrelId=OTHER,
        Encoding=273,
        CodedCharSetId=500,
        Format="MQSTR",
    )
    with new_session(any_manager) as session:
        staged_id = session.put(
            STAGING, header + b"data", format_name=FORMAT, persistent=persistent, priority=6
        )
        if due_in_ms > 0:
            assert any_manager.counts("Q1").staged == 1
            (seen,) = session.browse(STAGING, msg_id=staged_id)
            number = any_manager.engine.registry.queue("Q1").number
            assert seen.body[16:] == header[16:120] + seen.correl_id + header[144:] + b"data"
            assert DDH.unpack(seen.body)["TargetNumber"] == number
            assert (seen.correl_id == OWN) == (header_id == OWN)
            clock.advance(due_in_ms - 1)
            assert any_manager.curdepth("Q1") == 0
            clock.advance(1)
        message = session.get("Q1")
    assert message is not None
    assert message.body == b"data"
    assert message.correl_id == OTHER
    assert message.msg_id not in (ZERO_ID, staged_id)
    assert (message.msg_id == OWN) == (header_id == OWN)
    md = message.descriptor
    assert (md.format, md.encoding, md.coded_char_set_id, md.priority) == ("MQSTR", 273, 500, 6)
    assert message.persistent == persistent
    assert message.deliver_at_ms == START_MS + max(due_in_ms, 0)
    assert ends(any_manager, STAGING) == [End("released", max(due_in_ms, 0))]
    assert any_manager.counts("Q1").staged == 0


def test_D14_message_taken_from_staging_can_be_put_back_as_it_was(
    any_manager: QueueManager, clock: VirtualClock, persistent: bool, new_session: NewSession
) -> None:
    local(any_manager)
    with new_session(any_manager) as session:
        sent = session.put("Q1", b"x", delay_ms=5_000, correl_id=OWN, persistent=persistent)
        taken = session.get(STAGING, correl_id=sent)
        assert taken is not None
        session.put(STAGING, taken.body, format_name=FORMAT, persistent=taken.persistent)
        assert next(session.browse(STAGING, correl_id=sent)).body == taken.body
        clock.advance(5_000)
        message = session.get("Q1")
    assert message is not None
    assert (message.msg_id, message.correl_id, message.body) == (sent, OWN, b"x")


def test_D12_application_s_put_on_staging_in_a_unit_of_work_is_there_at_its_commit(
    any_manager: QueueManager, clock: VirtualClock, persistent: bool, new_session: NewSession
) -> None:
    local(any_manager)
    with new_session(any_manager, transacted=True) as unit:
        unit.put(STAGING, header_for() + b"x", format_name=FORMAT, persistent=persistent)
        assert (any_manager.curdepth(STAGING), any_manager.counts("Q1").staged) == (0, 0)
        unit.backout()
        clock.advance(5_000)
        assert unit.get("Q1") is None
        unit.put(STAGING, header_for() + b"late", format_name=FORMAT, persistent=persistent)
        unit.put(STAGING, b"damaged", persistent=persistent, report=c.MQRO_DISCARD_MSG)
        unit.commit()
        assert body(unit.get("Q1")) == b"late"
        assert any_manager.curdepth(STAGING) == 0


def test_D14_delay_on_top_of_the_staging_queue_is_refused(
    queue_manager: QueueManager, session: Session
) -> None:
    with refused(rc.MQRC_OPTIONS_ERROR):
        session.put(STAGING, header_for() + b"x", format_name=FORMAT, delay_ms=1)
    assert queue_manager.curdepth(STAGING) == 0


def _with(offset: int, value: bytes) -> Damage:
    return lambda header: header[:offset] + value + header[offset + len(value) :]


DAMAGES: dict[str, Damage] = {
    "StrucId": _with(0, b"DLH "),
    "Version 0": _with(4, bytes(4)),
    "Version 2": _with(4, b"\x02\0\0\0"),
    "big-endian": _with(4, b"\0\0\0\x01"),
    "StrucLength below the fixed part": _with(8, (207).to_bytes(4, "little")),
    "StrucLength beyond the data": _with(8, (214).to_bytes(4, "little")),
    "StrucLength negative": _with(8, b"\xff" * 4),
    "DueTime negative": _with(16, b"\xff" * 8),
    "DueTime after 2109": _with(16, (2**42).to_bytes(8, "little")),
    "no target": _with(24, b" " * 48),
    "target of zeros": _with(24, bytes(48)),
    "short": lambda header: header[:207],
    "shorter than an id": lambda _header: b"DDH",
    "empty": lambda _header: b"",
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_D14_damaged_header_is_dead_lettered_at_once_and_the_rest_goes_on(
    queue_manager: QueueManager,
    session: Session,
    clock: VirtualClock,
    persistent: bool,
    damage: Damage,
) -> None:
    local(queue_manager)
    local(queue_manager, REPLIES)
    alter_manager(queue_manager, DEADQ=DEAD)
    session.put("Q1", b"before", delay_ms=1_000, persistent=persistent)
    whole = damage(header_for())
    whole += b"" if len(whole) < 208 else b"data!"
    sent = session.put(
        STAGING,
        whole,
        format_name=FORMAT,
        persistent=persistent,
        correl_id=OWN,
        report=c.MQRO_EXCEPTION,
        reply_to_q=REPLIES,
    )
    dead = session.get(DEAD)
    assert dead is not None
    header = DLH.unpack(dead.body)
    assert (header["Reason"], header["DestQName"]) == (rc.MQRC_HEADER_ERROR, STAGING)
    assert (header["Format"], dead.body[172:]) == (FORMAT, whole)
    assert (dead.msg_id, dead.correl_id, dead.persistent) == (sent, OWN, persistent)
    report = session.get(REPLIES)
    assert report is not None
    assert (report.descriptor.feedback, report.correl_id) == (rc.MQRC_HEADER_ERROR, sent)
    assert ends(queue_manager, STAGING) == [End("dead_lettered", 0, rc.MQRC_HEADER_ERROR)]
    assert lives(queue_manager, STAGING)[0].msg_id == sent
    clock.advance(1_000)
    assert body(session.get("Q1")) == b"before"
    assert queue_manager.delay_processor_status() in WORKING


@pytest.mark.parametrize("format_name", ["", "MQSTR", "MQDEAD"])
def test_D14_message_of_another_format_is_dead_lettered_whatever_its_data(
    queue_manager: QueueManager, session: Session, format_name: str
) -> None:
    local(queue_manager)
    alter_manager(queue_manager, DEADQ=DEAD)
    session.put(STAGING, header_for() + b"x", format_name=format_name)
    dead = session.get(DEAD)
    assert dead is not None
    assert DLH.unpack(dead.body)["Reason"] == rc.MQRC_HEADER_ERROR
    assert dead.body[172:] == header_for() + b"x"


def test_D20_damaged_header_with_discard_is_dropped(
    queue_manager: QueueManager, session: Session, persistent: bool
) -> None:
    alter_manager(queue_manager, DEADQ=DEAD)
    session.put(STAGING, b"x", report=c.MQRO_DISCARD_MSG, persistent=persistent)
    assert (queue_manager.curdepth(STAGING), queue_manager.curdepth(DEAD)) == (0, 0)
    assert ends(queue_manager, STAGING) == [End("discarded", 0, rc.MQRC_HEADER_ERROR)]


def test_D21_damaged_header_without_a_dead_letter_queue_stays_and_is_tried_again(
    any_manager: QueueManager, clock: VirtualClock, persistent: bool, new_session: NewSession
) -> None:
    """It is shown as it was put, can be got by its own ids, and blocks nobody."""
    local(any_manager)
    with new_session(any_manager) as session, new_session(any_manager, transacted=True) as unit:
        session.put("Q1", b"free", delay_ms=1, persistent=persistent)
        sent = session.put(STAGING, b"x", msg_id=OWN, correl_id=OTHER, persistent=persistent)
        assert sent == OWN
        clock.advance(1)
        assert body(session.get("Q1")) == b"free"
        (seen,) = session.browse(STAGING)
        assert (seen.body, seen.msg_id, seen.correl_id) == (b"x", OWN, OTHER)
        assert body(unit.get(STAGING, msg_id=OWN)) == b"x"
        unit.backout()
        # Nor under the id it is stored by.
        for msg_id in (OWN, b"MMM)" + b"M" * 20):
            assert session.schedule.cancel(msg_id) is Receipt.UNKNOWN
        assert session.schedule.list() == []
        alter_manager(any_manager, DEADQ=DEAD)
        clock.advance(RETRY_MS - 2)
        assert any_manager.curdepth(DEAD) == 0
        clock.advance(1)
        assert (any_manager.curdepth(DEAD), any_manager.curdepth(STAGING)) == (1, 0)


def test_D14_application_s_put_obeys_the_staging_queue_s_limits(
    queue_manager: QueueManager, session: Session
) -> None:
    local(queue_manager)
    text = header_for() + b"x"
    alter(queue_manager, STAGING, MAXMSGL=len(text))
    session.put(STAGING, text, format_name=FORMAT)
    with refused(rc.MQRC_MSG_TOO_BIG_FOR_Q):
        session.put(STAGING, text + b"y", format_name=FORMAT)
    alter(queue_manager, STAGING, MAXDEPTH=1)
    with refused(rc.MQRC_Q_FULL):
        session.put(STAGING, text, format_name=FORMAT)
    alter(queue_manager, STAGING, PUT=c.MQQA_PUT_INHIBITED)
    with refused(rc.MQRC_PUT_INHIBITED):
        session.put(STAGING, text, format_name=FORMAT)
    assert queue_manager.curdepth(STAGING) == 1


def test_P8_put_on_staging_obeys_the_way_there_and_the_queue_manager(
    queue_manager: QueueManager, session: Session
) -> None:
    local(queue_manager)
    alias(queue_manager, "A1", STAGING, PUT=c.MQQA_PUT_INHIBITED)
    with refused(rc.MQRC_PUT_INHIBITED):
        session.put("A1", header_for() + b"x", format_name=FORMAT)
    alter_manager(queue_manager, MAXMSGL=32_768)
    with refused(rc.MQRC_MSG_TOO_BIG_FOR_Q_MGR):
        session.put(STAGING, header_for() + bytes(32_768), format_name=FORMAT)
    assert queue_manager.curdepth(STAGING) == 0


def test_D27_put_on_staging_has_its_arrival_reported_at_the_target(
    queue_manager: QueueManager, session: Session, clock: VirtualClock, persistent: bool
) -> None:
    local(queue_manager)
    local(queue_manager, REPLIES)
    session.put(
        STAGING,
        header_for(OriginalMsgId=OWN) + b"x",
        format_name=FORMAT,
        persistent=persistent,
        report=c.MQRO_COA,
        reply_to_q=REPLIES,
    )
    clock.advance(4_999)
    assert queue_manager.curdepth(REPLIES) == 0
    clock.advance(1)
    report = session.get(REPLIES)
    assert report is not None
    assert (report.correl_id, report.descriptor.feedback) == (OWN, c.MQFB_COA)


def test_D5_staging_queue_of_an_older_queue_manager_is_a_queue_like_any_other(
    clock: VirtualClock,
    new_session: NewSession,
) -> None:
    """Nobody looks at what is put there."""
    with QueueManager("QM1", clock=clock, command_level=750) as qm, new_session(qm) as session:
        local(qm)
        session.put(STAGING, b"damaged")
        clock.advance(60_000)
        assert body(session.get(STAGING)) == b"damaged"
        assert qm.verify().ok


def test_D14_damaged_message_is_found_by_the_correl_id_it_shows(
    queue_manager: QueueManager, session: Session
) -> None:
    session.put(STAGING, b"x", msg_id=OWN, correl_id=OTHER)
    assert [m.msg_id for m in session.browse(STAGING)] == [OWN]
    seen = {
        (msg_id, correl_id): [
            m.msg_id for m in session.browse(STAGING, msg_id=msg_id, correl_id=correl_id)
        ]
        for msg_id in (None, OWN, OTHER)
        for correl_id in (None, OWN, OTHER)
    }
    shown = [(None, None), (None, OTHER), (OWN, None), (OWN, OTHER)]
    assert {ids for ids, found in seen.items() if found} == set(shown)
    assert all(seen[ids] == [OWN] for ids in shown)
