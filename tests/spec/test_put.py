"""MQPUT, rules P1-P10 and P12: what is checked, what is filled in, and when it is seen."""

from functools import partial
from typing import Any

import pytest

from mayfly import MQError, QueueManager
from mayfly.engine import PutRequest, Session
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.descriptor import Descriptor
from mayfly.mqi.layout import Layout
from mayfly.mqi.structures import DLH, IIH, MDE, RFH2, TM, TMC2
from mayfly.testing import VirtualClock
from mayfly.verbs.messages import PutResult
from mayfly.verbs.schedule import Receipt
from tests.over import NewSession
from tests.spec.scene import (
    OUTPUT,
    REPLIES,
    START_MS,
    V2,
    ZERO_ID,
    alias,
    alter,
    alter_manager,
    bodies,
    body,
    lives,
    local,
    put_md,
    refused,
)

WITH_REPLY = Descriptor(reply_to_q=REPLIES)


def with_field(descriptor: Descriptor, field: str, value: int) -> Descriptor:
    return Descriptor(**{**descriptor._asdict(), field: value})


@pytest.mark.parametrize(
    ("field", "good", "bad", "reason"),
    [
        ("msg_type", [1, 8, 65_535, 65_536, 999_999_999], [0, -1, 10**9], rc.MQRC_MSG_TYPE_ERROR),
        ("feedback", [0, 258, 65_536, 999_999_999], [-1, 10**9], rc.MQRC_FEEDBACK_ERROR),
        ("priority", [-1, 0, 9], [-2, -3], rc.MQRC_PRIORITY_ERROR),
        ("persistence", [0, 1, 2], [-1, 3], rc.MQRC_PERSISTENCE_ERROR),
        ("msg_flags", [0, 1, 8, 24, 0x00100000], [0x20, 0x800], rc.MQRC_MSG_FLAGS_ERROR),
    ],
)
def test_P1_each_field_is_checked(
    queue_manager: QueueManager,
    session: Session,
    field: str,
    good: list[int],
    bad: list[int],
    reason: int,
) -> None:
    """A put that fails adds nothing and makes no report."""
    local(queue_manager)
    local(queue_manager, REPLIES)
    asking = WITH_REPLY._replace(report=c.MQRO_COA | c.MQRO_EXCEPTION, version=2)
    for value in bad:
        with refused(reason):
            put_md(session, "Q1", b"x", with_field(asking, field, value))
    assert queue_manager.curdepth("Q1") == 0
    for value in good:
        assert put_md(session, "Q1", b"x", with_field(asking, field, value)).warning == 0
    assert queue_manager.curdepth("Q1") == len(good)
    assert queue_manager.curdepth(REPLIES) == len(good)


@pytest.mark.parametrize("priority", [10, 11, 2**31 - 1])
def test_P1_priority_above_the_maximum_is_a_warning(
    queue_manager: QueueManager, session: Session, priority: int
) -> None:
    """Queued among those of priority 9; the field keeps the application's value."""
    local(queue_manager)
    session.put("Q1", b"9", priority=9)
    result = put_md(session, "Q1", b"more", Descriptor(priority=priority))
    session.put("Q1", b"9 again", priority=9)
    assert result.warning == rc.MQRC_PRIORITY_EXCEEDS_MAXIMUM
    assert result.descriptor.priority == priority
    messages = [(m.body, m.priority) for m in session.browse("Q1")]
    assert messages == [(b"9", 9), (b"more", priority), (b"9 again", 9)]


@pytest.mark.parametrize(
    ("report", "outcome"),
    [
        (0x00040000, rc.MQRC_REPORT_OPTIONS_ERROR),
        (0x00080000, rc.MQRC_REPORT_OPTIONS_ERROR),
        (0x10000000, rc.MQRC_REPORT_OPTIONS_ERROR),
        (0x00008000, rc.MQRC_REPORT_OPTIONS_ERROR),
        (0x00010000, rc.MQRC_REPORT_OPTIONS_ERROR),
        (0x00000008, rc.MQRC_UNKNOWN_REPORT_OPTION),
        (0x20000000, rc.MQRC_UNKNOWN_REPORT_OPTION),
        (0x40000000, rc.MQRC_UNKNOWN_REPORT_OPTION),
        (0x80000000, rc.MQRC_UNKNOWN_REPORT_OPTION),
        (-0x80000000, rc.MQRC_UNKNOWN_REPORT_OPTION),
        (0x00000008 | 0x00040000, rc.MQRC_REPORT_OPTIONS_ERROR),
        (c.MQRO_PASS_MSG_ID | c.MQRO_PASS_CORREL_ID | c.MQRO_DISCARD_MSG, 0),
        (c.MQRO_PASS_DISCARD_AND_EXPIRY, 0),
    ],
)
def test_P2_unknown_report_options_by_their_masks(
    queue_manager: QueueManager, session: Session, report: int, outcome: int
) -> None:
    """Must reject: 2061; may accept: a warning 2104; accept only on transmission queues: 2061."""
    local(queue_manager)
    asking = WITH_REPLY._replace(report=report)
    if outcome == rc.MQRC_REPORT_OPTIONS_ERROR:
        with refused(outcome):
            put_md(session, "Q1", b"x", asking)
        assert queue_manager.curdepth("Q1") == 0
        return
    assert put_md(session, "Q1", b"x", asking).warning == outcome
    message = session.get("Q1")
    assert message is not None
    assert message.descriptor.report & 0xFFFFFFFF == report & 0xFFFFFFFF


@pytest.mark.parametrize(
    ("descriptor", "fails"),
    [
        (Descriptor(msg_type=c.MQMT_REQUEST), True),
        (Descriptor(msg_type=c.MQMT_REPLY), False),
        (Descriptor(report=c.MQRO_EXCEPTION), True),
        (Descriptor(report=c.MQRO_EXPIRATION), True),
        (Descriptor(report=c.MQRO_COA), True),
        (Descriptor(report=c.MQRO_COD), True),
        (Descriptor(report=c.MQRO_PAN), True),
        (Descriptor(report=c.MQRO_NAN), True),
        (Descriptor(report=c.MQRO_ACTIVITY), True),
        (Descriptor(report=c.MQRO_PASS_CORREL_ID | c.MQRO_DISCARD_MSG), False),
    ],
)
def test_P3_reply_queue_is_needed(
    queue_manager: QueueManager, session: Session, descriptor: Descriptor, fails: bool
) -> None:
    local(queue_manager)
    if fails:
        with refused(rc.MQRC_MISSING_REPLY_TO_Q):
            put_md(session, "Q1", b"x", descriptor)
        assert queue_manager.curdepth("Q1") == 0
    put_md(session, "Q1", b"x", descriptor._replace(reply_to_q=REPLIES))
    assert queue_manager.curdepth("Q1") == 1


@pytest.mark.parametrize(
    ("reply_to_q", "given", "stored"),
    [(REPLIES, "", "QM1"), (REPLIES, "QM2", "QM2"), ("", "", ""), ("", "QM2", "QM2")],
)
def test_P4_reply_manager_is_filled_in(
    queue_manager: QueueManager, session: Session, reply_to_q: str, given: str, stored: str
) -> None:
    local(queue_manager)
    put_md(session, "Q1", b"x", Descriptor(reply_to_q=reply_to_q, reply_to_q_mgr=given))
    message = session.get("Q1")
    assert message is not None
    assert message.descriptor.reply_to_q_mgr == stored


def test_P5_ids(queue_manager: QueueManager, session: Session) -> None:
    """MsgId: generated when all zero or asked for; CorrelId: kept unless asked for."""
    local(queue_manager)
    one, two = session.put("Q1", b"x"), session.put("Q1", b"x", msg_id=ZERO_ID)
    assert one != two
    assert one.startswith(b"AMQ QM1         ")
    assert session.put("Q1", b"x", msg_id=b"mine") == b"mine".ljust(24, b"\0")
    kept = put_md(session, "Q1", b"x", V2, msg_id=b"m" * 24, correl_id=b"c" * 24)
    assert (kept.msg_id, kept.correl_id) == (b"m" * 24, b"c" * 24)
    both = c.MQPMO_NEW_MSG_ID | c.MQPMO_NEW_CORREL_ID
    new = put_md(session, "Q1", b"x", V2, msg_id=b"m" * 24, correl_id=b"c" * 24, options=both)
    assert b"m" * 24 not in (new.msg_id, new.correl_id)
    assert b"c" * 24 not in (new.msg_id, new.correl_id)
    assert len({new.msg_id, new.correl_id, ZERO_ID, b""}) == 4
    stored = [(m.msg_id, m.correl_id) for m in session.browse("Q1")]
    assert stored[-1] == (new.msg_id, new.correl_id)
    assert stored[0] == (one, ZERO_ID)


def test_P5_id_that_is_too_long_is_refused(queue_manager: QueueManager, session: Session) -> None:
    local(queue_manager)
    with refused(rc.MQRC_MD_ERROR):
        session.put("Q1", b"x", correl_id=b"c" * 25)


GIVEN = V2._replace(
    user_identifier="carl",
    accounting_token=b"token",
    appl_identity_data="identity",
    put_appl_type=c.MQAT_JAVA,
    put_appl_name="theirs",
    appl_origin_data="orig",
    put_date="19991231",
    put_time="23595999",
)
OURS = ("anna", b"", "", c.MQAT_UNIX, "mayfly", "", "20231114", "22132012")


@pytest.mark.parametrize(
    ("option", "expected"),
    [
        (c.MQPMO_NONE, OURS),
        (c.MQPMO_DEFAULT_CONTEXT, OURS),
        (c.MQPMO_NO_CONTEXT, ("", b"", "", c.MQAT_NO_CONTEXT, "", "", "", "")),
        (c.MQPMO_SET_IDENTITY_CONTEXT, ("carl", b"token", "identity", *OURS[3:])),
        (
            c.MQPMO_SET_ALL_CONTEXT,
            ("carl", b"token", "identity", 28, "theirs", "orig", "19991231", "23595999"),
        ),
    ],
)
def test_P6_context(
    queue_manager: QueueManager,
    session: Session,
    clock: VirtualClock,
    option: int,
    expected: tuple[str | bytes | int, ...],
) -> None:
    """PutDate and PutTime are UTC, in hundredths of a second."""
    local(queue_manager)
    clock.advance(123)
    put_md(session, "Q1", b"x", GIVEN, options=option)
    message = session.get("Q1")
    assert message is not None
    d = message.descriptor
    identity = (d.user_identifier, d.accounting_token, d.appl_identity_data)
    origin = (d.put_appl_type, d.put_appl_name, d.appl_origin_data)
    assert (*identity, *origin, message.put_date, message.put_time) == expected


@pytest.mark.parametrize(
    ("opened", "option", "reason"),
    [
        (0, c.MQPMO_SET_ALL_CONTEXT, rc.MQRC_NOT_OPEN_FOR_SET_ALL),
        (c.MQOO_SET_IDENTITY_CONTEXT, c.MQPMO_SET_ALL_CONTEXT, rc.MQRC_NOT_OPEN_FOR_SET_ALL),
        (0, c.MQPMO_SET_IDENTITY_CONTEXT, rc.MQRC_NOT_OPEN_FOR_SET_IDENT),
        (c.MQOO_SET_IDENTITY_CONTEXT, c.MQPMO_SET_IDENTITY_CONTEXT, 0),
        (c.MQOO_SET_ALL_CONTEXT, c.MQPMO_SET_IDENTITY_CONTEXT, 0),
    ],
)
def test_P6_context_options_need_their_open_options(
    queue_manager: QueueManager, session: Session, opened: int, option: int, reason: int
) -> None:
    local(queue_manager)
    handle = session.open("Q1", OUTPUT | opened)
    if reason:
        with refused(reason):
            handle.put(b"x", PutRequest(GIVEN), option)
    else:
        handle.put(b"x", PutRequest(GIVEN), option)
    assert queue_manager.curdepth("Q1") == int(not reason)


def test_P7_defaults_of_the_first_object_resolved(
    queue_manager: QueueManager, session: Session
) -> None:
    local(queue_manager, DEFPRTY=2, DEFPSIST=c.MQPER_NOT_PERSISTENT)
    alias(queue_manager, "A1", "Q1", DEFPRTY=8, DEFPSIST=c.MQPER_PERSISTENT)
    session.put("Q1", b"queue")
    session.put("A1", b"alias")
    session.put("A1", b"own", priority=5, persistent=False)
    found = [(m.body, m.priority, m.persistent) for m in session.browse("Q1")]
    assert found == [(b"alias", 8, True), (b"own", 5, False), (b"queue", 2, False)]


def test_P7_temporary_queue_takes_no_persistent_message(
    queue_manager: QueueManager, session: Session
) -> None:
    handle = session.open("SYSTEM.DEFAULT.MODEL.QUEUE", c.MQOO_INPUT_SHARED | OUTPUT)
    with refused(rc.MQRC_PERSISTENT_NOT_ALLOWED):
        session.put(handle.queue_name, b"x", persistent=True)
    session.put(handle.queue_name, b"x")
    assert queue_manager.curdepth(handle.queue_name) == 1


def test_P8_length_and_depth(queue_manager: QueueManager, session: Session) -> None:
    """Exactly as long and as deep as allowed is allowed."""
    local(queue_manager, MAXMSGL=10, MAXDEPTH=2)
    with refused(rc.MQRC_MSG_TOO_BIG_FOR_Q):
        session.put("Q1", b"x" * 11)
    session.put("Q1", b"x" * 10)
    session.put("Q1", b"")
    with refused(rc.MQRC_Q_FULL):
        session.put("Q1", b"x")
    assert queue_manager.curdepth("Q1") == 2


def test_P8_length_of_the_manager(queue_manager: QueueManager, session: Session) -> None:
    local(queue_manager, MAXMSGL=100_000)
    alter_manager(queue_manager, MAXMSGL=32_768)
    with refused(rc.MQRC_MSG_TOO_BIG_FOR_Q_MGR):
        session.put("Q1", b"x" * 32_769)
    session.put("Q1", b"x" * 32_768)


def test_P8_limits_that_are_altered_count_for_a_handle_that_is_open(
    queue_manager: QueueManager, session: Session
) -> None:
    local(queue_manager, MAXMSGL=100_000)
    handle, request = session.open("Q1", OUTPUT), PutRequest(Descriptor())
    handle.put(bytes(100_000), request)

    def neither_takes_it(reason: int) -> None:
        with refused(reason):
            handle.put(bytes(32_769), request)
        with refused(reason):
            session.put("Q1", bytes(32_769))

    alter_manager(queue_manager, MAXMSGL=32_768)
    neither_takes_it(rc.MQRC_MSG_TOO_BIG_FOR_Q_MGR)
    alter(queue_manager, "Q1", MAXMSGL=10)
    neither_takes_it(rc.MQRC_MSG_TOO_BIG_FOR_Q)
    alter(queue_manager, "Q1", PUT=c.MQQA_PUT_INHIBITED)
    neither_takes_it(rc.MQRC_PUT_INHIBITED)
    alter(queue_manager, "Q1", PUT=c.MQQA_PUT_ALLOWED, MAXMSGL=100_000)
    alter_manager(queue_manager, MAXMSGL=100_000)
    handle.put(bytes(100_000), request)
    assert queue_manager.curdepth("Q1") == 2


def test_P6_one_descriptor_has_the_context_of_each_put_and_the_defaults_of_the_moment(
    queue_manager: QueueManager,
) -> None:
    """What a path remembers of its last put counts for the same put alone."""
    local(queue_manager)
    request = PutRequest(Descriptor(user_identifier="carol"))
    with queue_manager.session("alice") as alice, queue_manager.session("bob") as bob:
        handles = [
            session.open("Q1", OUTPUT | c.MQOO_SET_ALL_CONTEXT) for session in (alice, bob, alice)
        ]

        def users(options: int) -> list[str]:
            return [
                handle.put(b"x", request, options).descriptor.user_identifier for handle in handles
            ]

        for _ in range(2):
            assert users(c.MQPMO_NONE) == ["alice", "bob", "alice"]
            assert users(c.MQPMO_SET_ALL_CONTEXT) == ["carol"] * 3
            assert users(c.MQPMO_NO_CONTEXT) == [""] * 3
        alter(queue_manager, "Q1", DEFPRTY=7, DEFPSIST=c.MQPER_PERSISTENT)
        put = handles[0].put(b"x", request).descriptor
        assert (put.priority, put.persistence) == (7, c.MQPER_PERSISTENT)


def test_P12_the_header_of_each_message_is_checked(
    queue_manager: QueueManager, session: Session
) -> None:
    local(queue_manager)
    handle = session.open("Q1", OUTPUT)
    request = PutRequest(Descriptor(version=2, format="MQDEAD"))
    for _ in range(2):
        handle.put(DLH.pack({}), request)
        with refused(rc.MQRC_DLH_ERROR):
            handle.put(b"no header", request)


def test_C2_a_reply_queue_that_is_defined_between_two_puts_counts_for_the_second(
    queue_manager: QueueManager, session: Session
) -> None:
    local(queue_manager)
    handle = session.open("Q1", OUTPUT)
    request = PutRequest(Descriptor(reply_to_q="R"))
    for expected in (("R", "QM1"), ("R", "QM1")):
        put = handle.put(b"x", request).descriptor
        assert (put.reply_to_q, put.reply_to_q_mgr) == expected
    queue_manager.mqsc("DEFINE QREMOTE(R) RNAME(FAR) RQMNAME(QM9)")
    put = handle.put(b"x", request).descriptor
    assert (put.reply_to_q, put.reply_to_q_mgr) == ("FAR", "QM9")


def test_P9_uncommitted_put_counts_is_invisible_and_may_be_got_by_its_unit(
    any_manager: QueueManager, persistent: bool, new_session: NewSession
) -> None:
    local(any_manager, MAXDEPTH=2)
    with new_session(any_manager) as session, new_session(any_manager, transacted=True) as unit:
        mine = unit.put("Q1", b"mine", persistent=persistent)
        unit.put("Q1", b"other", persistent=persistent)
        assert any_manager.curdepth("Q1") == 2
        assert session.get("Q1") is None
        assert list(session.browse("Q1")) == []
        with refused(rc.MQRC_Q_FULL):
            session.put("Q1", b"x")
        assert body(unit.get("Q1", msg_id=mine)) == b"mine"
        assert any_manager.curdepth("Q1") == 1
        unit.commit()
        assert bodies(session, "Q1") == [b"other"]
    assert [(r.outcome, r.msg_id == mine) for r in lives(any_manager, "Q1")] == [
        ("got", True),
        ("got", False),
    ]


def test_P9_own_put_and_committed_messages_in_queue_order(
    any_manager: QueueManager, persistent: bool, new_session: NewSession
) -> None:
    local(any_manager)
    with new_session(any_manager) as session, new_session(any_manager, transacted=True) as unit:
        session.put("Q1", b"committed 5", priority=5, persistent=persistent)
        unit.put("Q1", b"own 9", priority=9, persistent=persistent)
        unit.put("Q1", b"own 1", priority=1, persistent=persistent)
        assert bodies(unit, "Q1") == [b"own 9", b"committed 5", b"own 1"]
        unit.backout()
        assert bodies(session, "Q1") == [b"committed 5"]
    assert [r.backout_count for r in lives(any_manager, "Q1")] == [1]


def test_P9_no_syncpoint_is_the_default_on_every_platform(
    clock: VirtualClock, new_session: NewSession
) -> None:
    for platform in ("distributed", "zos"):
        with QueueManager("QM1", clock=clock, platform=platform) as qm, new_session(qm) as session:
            local(qm)
            put_md(session, "Q1", b"x", V2)
            with new_session(qm) as other:
                assert body(other.get("Q1")) == b"x"


@pytest.mark.parametrize(
    "options",
    [
        c.MQPMO_SYNCPOINT | c.MQPMO_NO_SYNCPOINT,
        c.MQPMO_DEFAULT_CONTEXT | c.MQPMO_NO_CONTEXT,
        c.MQPMO_NO_CONTEXT | c.MQPMO_SET_ALL_CONTEXT,
        0x00000001,
    ],
)
def test_P10_options_that_exclude_each_other(
    queue_manager: QueueManager, session: Session, options: int
) -> None:
    local(queue_manager)
    with refused(rc.MQRC_OPTIONS_ERROR):
        put_md(session, "Q1", b"x", V2, options=options)
    assert queue_manager.curdepth("Q1") == 0


def put_with_format(session: Session, version: int, format_name: str, data: bytes) -> PutResult:
    return put_md(session, "Q1", data, Descriptor(version=version, format=format_name))


@pytest.mark.parametrize(
    ("format_name", "layout", "reason"),
    [
        ("MQDEAD", DLH, rc.MQRC_DLH_ERROR),
        ("MQHMDE", MDE, rc.MQRC_MDE_ERROR),
        ("MQIMS", IIH, rc.MQRC_IIH_ERROR),
        ("MQTRIG", TM, rc.MQRC_TM_ERROR),
        ("MQCTRG", TMC2, rc.MQRC_TMC_ERROR),
        ("MQHRF2", RFH2, rc.MQRC_RFH_ERROR),
    ],
)
def test_P12_announced_header_is_checked_with_a_version_2_descriptor(
    queue_manager: QueueManager, session: Session, format_name: str, layout: Layout, reason: int
) -> None:
    """Wrong StrucId, wrong Version, too short; a version 1 descriptor is not looked into."""
    local(queue_manager)
    good = layout.pack({})
    version = b"\x63\0\0\0" if format_name != "MQCTRG" else b"  99"
    for bad in (b"NOPE" + good[4:], good[:4] + version + good[8:], good[:-1], b""):
        with refused(reason):
            put_with_format(session, 2, format_name, bad)
        put_with_format(session, 1, format_name, bad)
    put_with_format(session, 2, format_name, good + b"data")
    assert queue_manager.curdepth("Q1") == 5


@pytest.mark.parametrize("data", [b"", b"x" * 100, b"XQH "])
def test_P12_E24_transmission_header_is_not_checked_on_a_normal_queue(
    queue_manager: QueueManager, session: Session, data: bytes
) -> None:
    local(queue_manager)
    put_with_format(session, 2, "MQXMIT", data)
    assert bodies(session, "Q1") == [data]


def test_P12_header_in_big_endian_data(queue_manager: QueueManager, session: Session) -> None:
    local(queue_manager)
    data = RFH2.pack({}, big_endian=True)
    put_md(session, "Q1", data, V2._replace(format="MQHRF2", encoding=273))
    with refused(rc.MQRC_RFH_ERROR):
        put_md(session, "Q1", data, V2._replace(format="MQHRF2", encoding=546))
    message = session.get("Q1")
    assert message is not None
    assert message.put_ms == START_MS


# Ids as a program gives them


@pytest.mark.parametrize("wrong", ["o1", "ab1", "0x01", "é", 17, ["01"], "00" * 25, b"x" * 25])
@pytest.mark.parametrize("field", ["msg_id", "correl_id"])
def test_P_an_id_that_is_none_is_refused_with_its_field_and_value(
    queue_manager: QueueManager, session: Session, field: str, wrong: Any
) -> None:
    local(queue_manager)
    for verb in (partial(session.put, "Q1", b"x"), partial(session.get, "Q1")):
        with pytest.raises(MQError) as caught:
            verb(**{field: wrong})
        assert caught.value.reason == rc.MQRC_MD_ERROR
        assert caught.value.detail.startswith(f"{field} {wrong!r} is ") or len(wrong) > 24
    with refused(rc.MQRC_MD_ERROR):
        next(session.browse("Q1", **{field: wrong}))
    with refused(rc.MQRC_MD_ERROR):
        session.publish("a/b", b"x", **{field: wrong})
    with refused(rc.MQRC_MD_ERROR):
        session.schedule.cancel(wrong)
    assert queue_manager.curdepth("Q1") == 0


@pytest.mark.parametrize("given", [b"\xab\x01", "ab01", "AB01", "ID:ab01", bytearray(b"\xab\x01")])
def test_P_an_id_is_bytes_or_hexadecimal_digits(
    queue_manager: QueueManager, session: Session, given: Any
) -> None:
    local(queue_manager)
    assert session.put("Q1", b"x", msg_id=given, correl_id=given) == b"\xab\x01".ljust(24, b"\0")
    message = session.get("Q1", msg_id=given, correl_id=given)
    assert message is not None
    assert message.msg_id == message.correl_id == b"\xab\x01".ljust(24, b"\0")
    session.put("Q1", b"x", delay_ms=1_000, msg_id=given)
    assert session.schedule.show(given) is not None
    assert session.schedule.cancel(given) is Receipt.CANCELLED
