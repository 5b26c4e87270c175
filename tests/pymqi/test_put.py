"""MQPUT and MQPUT1: each wrong field has its reason code and puts nothing; what is written back."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from mayfly import QueueManager, pymqi
from mayfly.pymqi import CMQC
from mayfly.testing import VirtualClock

Fails = Callable[..., pymqi.MQMIError]

#: VirtualClock starts at 2023-11-14 22:13:20 UTC.
START_DATE, START_TIME = b"20231114", b"22132000"
REQUEST = CMQC.MQMT_REQUEST

WRONG_MD = [
    ({"StrucId": b"XX  "}, CMQC.MQRC_MD_ERROR),
    ({"Version": 0}, CMQC.MQRC_MD_ERROR),
    ({"Version": 3}, CMQC.MQRC_MD_ERROR),
    ({"MsgType": 0}, CMQC.MQRC_MSG_TYPE_ERROR),
    ({"MsgType": -1}, CMQC.MQRC_MSG_TYPE_ERROR),
    ({"Expiry": 0}, CMQC.MQRC_EXPIRY_ERROR),
    ({"Expiry": -2}, CMQC.MQRC_EXPIRY_ERROR),
    ({"Feedback": -1}, CMQC.MQRC_FEEDBACK_ERROR),
    ({"Priority": -2}, CMQC.MQRC_PRIORITY_ERROR),
    ({"Persistence": 3}, CMQC.MQRC_PERSISTENCE_ERROR),
    ({"Persistence": -1}, CMQC.MQRC_PERSISTENCE_ERROR),
    ({"Report": 0x10000000}, CMQC.MQRC_REPORT_OPTIONS_ERROR),
    ({"MsgType": REQUEST}, CMQC.MQRC_MISSING_REPLY_TO_Q),
    ({"Report": CMQC.MQRO_EXPIRATION}, CMQC.MQRC_MISSING_REPLY_TO_Q),
    ({"Version": 2, "MsgFlags": 0x00010000}, CMQC.MQRC_MSG_FLAGS_ERROR),
    ({"Version": 2, "Format": b"MQDEAD  "}, CMQC.MQRC_DLH_ERROR),
]
WRONG_PMO = [
    ({"StrucId": b"GMO "}, CMQC.MQRC_PMO_ERROR),
    ({"Version": 0}, CMQC.MQRC_PMO_ERROR),
    ({"Version": 4}, CMQC.MQRC_PMO_ERROR),
    (
        {"Options": CMQC.MQPMO_SYNCPOINT | CMQC.MQPMO_NO_SYNCPOINT},
        CMQC.MQRC_OPTIONS_ERROR,
    ),
    (
        {"Options": CMQC.MQPMO_NO_CONTEXT | CMQC.MQPMO_DEFAULT_CONTEXT},
        CMQC.MQRC_OPTIONS_ERROR,
    ),
    ({"Options": 0x08000000}, CMQC.MQRC_OPTIONS_ERROR),
    ({"Options": CMQC.MQPMO_SET_ALL_CONTEXT}, CMQC.MQRC_NOT_OPEN_FOR_SET_ALL),
    ({"Options": CMQC.MQPMO_SET_IDENTITY_CONTEXT}, CMQC.MQRC_NOT_OPEN_FOR_SET_IDENT),
]


def case(value: object) -> str:
    return " ".join(f"{k}={v}" for k, v in value.items()) if isinstance(value, dict) else str(value)


@pytest.mark.parametrize(("fields", "reason"), WRONG_MD, ids=case)
def test_P01_wrong_descriptor_field_fails_the_put_and_changes_nothing(
    queue_manager: QueueManager,
    queue: pymqi.Queue,
    fails: Fails,
    fields: dict[str, int],
    reason: int,
) -> None:
    md, pmo = pymqi.MD(**fields), pymqi.PMO()
    before = md.get(), pmo.get()
    error = fails(queue.put, b"x", md, pmo)
    assert (error.comp, error.reason) == (CMQC.MQCC_FAILED, reason)
    assert queue_manager.curdepth("Q1") == 0
    assert (md.get(), pmo.get()) == before


@pytest.mark.parametrize(("fields", "reason"), WRONG_MD, ids=case)
def test_P11_put1_fails_with_the_same_codes(
    queue_manager: QueueManager,
    connection: pymqi.QueueManager,
    fails: Fails,
    fields: dict[str, int],
    reason: int,
) -> None:
    error = fails(connection.put1, "Q1", b"x", pymqi.MD(**fields))
    assert (error.comp, error.reason) == (CMQC.MQCC_FAILED, reason)
    assert queue_manager.curdepth("Q1") == 0


@pytest.mark.parametrize(("fields", "reason"), WRONG_PMO, ids=case)
def test_P10_wrong_put_options_fail_the_put_and_change_nothing(
    queue_manager: QueueManager,
    queue: pymqi.Queue,
    fails: Fails,
    fields: dict[str, int],
    reason: int,
) -> None:
    md, pmo = pymqi.MD(), pymqi.PMO(**fields)
    before = md.get(), pmo.get()
    error = fails(queue.put, b"x", md, pmo)
    assert (error.comp, error.reason) == (CMQC.MQCC_FAILED, reason)
    assert queue_manager.curdepth("Q1") == 0
    assert (md.get(), pmo.get()) == before


def test_P01_priority_above_the_maximum_is_a_warning_and_the_field_keeps_its_value(
    queue_manager: QueueManager, queue: pymqi.Queue, fails: Fails
) -> None:
    md = pymqi.MD(Priority=12)
    error = fails(queue.put, b"high", md)
    assert (error.comp, error.reason) == (CMQC.MQCC_WARNING, CMQC.MQRC_PRIORITY_EXCEEDS_MAXIMUM)
    assert queue_manager.curdepth("Q1") == 1
    assert md.Priority == 12
    assert md.MsgId != bytes(24)
    queue.put(b"low", pymqi.MD(Priority=8))
    got = pymqi.MD()
    assert queue.get(None, got) == b"high"
    assert got.Priority == 12


def test_P02_unknown_report_option_that_may_be_accepted_is_a_warning(
    queue_manager: QueueManager, queue: pymqi.Queue, fails: Fails
) -> None:
    error = fails(queue.put, b"x", pymqi.MD(Report=-(2**31)))
    assert (error.comp, error.reason) == (CMQC.MQCC_WARNING, CMQC.MQRC_UNKNOWN_REPORT_OPTION)
    assert queue_manager.curdepth("Q1") == 1
    got = pymqi.MD()
    queue.get(None, got)
    assert got.Report == -(2**31)


def test_P03_request_with_a_reply_queue_is_accepted_and_P04_gets_the_manager_filled_in(
    queue: pymqi.Queue,
) -> None:
    md = pymqi.MD(MsgType=REQUEST, ReplyToQ=b"REPLIES")
    queue.put(b"x", md)
    assert md.ReplyToQ == b"REPLIES".ljust(48)
    assert md.ReplyToQMgr == b"QM1".ljust(48)
    got = pymqi.MD()
    queue.get(None, got)
    assert (got.ReplyToQ, got.ReplyToQMgr) == (md.ReplyToQ, md.ReplyToQMgr)
    assert got.MsgType == REQUEST


def test_P05_put_writes_ids_context_and_defaults_back(
    queue_manager: QueueManager, queue: pymqi.Queue
) -> None:
    queue_manager.mqsc("ALTER QLOCAL(Q1) DEFPRTY(4) DEFPSIST(YES)")
    md, pmo = pymqi.MD(Expiry=600), pymqi.PMO()
    queue.put(b"x", md, pmo)
    assert len(md.MsgId) == 24
    assert md.MsgId.startswith(b"AMQ QM1         ")
    assert md.CorrelId == bytes(24)
    assert (md.Priority, md.Persistence) == (4, CMQC.MQPER_PERSISTENT)
    assert (md.PutDate, md.PutTime) == (START_DATE, START_TIME)
    assert md.PutApplType == CMQC.MQAT_UNIX
    assert len(md.PutApplName) == 28
    assert md.PutApplName.strip()
    assert md.Expiry == 600
    assert pmo.ResolvedQName == b"Q1".ljust(48)
    assert pmo.ResolvedQMgrName == b"QM1".ljust(48)


def test_P05_descriptor_used_again_keeps_its_message_id_unless_new_ones_are_wanted(
    queue: pymqi.Queue,
) -> None:
    md = pymqi.MD(CorrelId=b"C")
    queue.put(b"1", md)
    first = md.MsgId
    queue.put(b"2", md)
    assert md.MsgId == first
    queue.put(b"3", md, pymqi.PMO(Options=CMQC.MQPMO_NEW_MSG_ID))
    assert md.MsgId not in (first, bytes(24))
    assert md.CorrelId == b"C".ljust(24, b"\0")
    queue.put(b"4", md, pymqi.PMO(Options=CMQC.MQPMO_NEW_CORREL_ID))
    assert md.CorrelId.startswith(b"AMQ QM1")
    ids = []
    for _ in range(4):
        got = pymqi.MD()
        queue.get(None, got)
        ids.append((got.MsgId, got.CorrelId))
    correl_id = b"C".ljust(24, b"\0")
    assert ids[:2] == [(first, correl_id), (first, correl_id)]
    assert ids[2][0] == ids[3][0] == md.MsgId
    assert (ids[2][1], ids[3][1]) == (correl_id, md.CorrelId)


def test_P05_nothing_is_written_back_with_md_for_output_only(queue: pymqi.Queue) -> None:
    md = pymqi.MD(CorrelId=b"C")
    before = md.get()
    queue.put(b"x", md, pymqi.PMO(Options=CMQC.MQPMO_MD_FOR_OUTPUT_ONLY))
    assert md.get() == before
    assert queue.get() == b"x"


def test_P06_no_context_leaves_blanks(queue: pymqi.Queue) -> None:
    md = pymqi.MD(UserIdentifier=b"me")
    queue.put(b"x", md, pymqi.PMO(Options=CMQC.MQPMO_NO_CONTEXT))
    got = pymqi.MD()
    queue.get(None, got)
    for seen in (md, got):
        assert seen.UserIdentifier == b" " * 12
        assert seen.PutApplType == CMQC.MQAT_NO_CONTEXT
        assert (seen.PutApplName, seen.PutDate, seen.PutTime) == (b" " * 28, b" " * 8, b" " * 8)


def test_P06_default_context_ignores_what_the_program_says(queue_manager: QueueManager) -> None:
    queue_manager.mqsc("DEFINE QLOCAL(Q1)")
    queue = pymqi.Queue(pymqi.connect("QM1", user="ann", password="secret"), "Q1")
    md = pymqi.MD(UserIdentifier=b"bob", PutApplName=b"other", PutDate=b"19990101")
    queue.put(b"x", md)
    assert md.UserIdentifier == b"ann".ljust(12)
    assert md.PutApplName != b"other".ljust(28)
    assert md.PutDate == START_DATE


def test_P06_set_all_context_keeps_what_the_program_says(connection: pymqi.QueueManager) -> None:
    said = {
        "UserIdentifier": b"bob".ljust(12),
        "AccountingToken": bytes(range(32)),
        "ApplIdentityData": b"identity".ljust(32),
        "PutApplType": CMQC.MQAT_CICS,
        "PutApplName": b"other".ljust(28),
        "PutDate": b"19990101",
        "PutTime": b"12345678",
        "ApplOriginData": b"orig",
    }
    options = pymqi.PMO(Options=CMQC.MQPMO_SET_ALL_CONTEXT)
    queue = pymqi.Queue(connection, "Q1", CMQC.MQOO_OUTPUT | CMQC.MQOO_SET_ALL_CONTEXT)
    queue.put(b"x", pymqi.MD(**said), options)
    connection.put1("Q1", b"x", pymqi.MD(**said), options)
    reader = pymqi.Queue(connection, "Q1")
    for _ in range(2):
        got = pymqi.MD()
        reader.get(None, got)
        assert {name: got[name] for name in said} == said


def test_P06_set_identity_context_keeps_identity_and_fills_in_origin(
    connection: pymqi.QueueManager,
) -> None:
    queue = pymqi.Queue(connection, "Q1", CMQC.MQOO_OUTPUT | CMQC.MQOO_SET_IDENTITY_CONTEXT)
    md = pymqi.MD(UserIdentifier=b"bob", ApplIdentityData=b"i", PutApplName=b"n", PutDate=b"1")
    queue.put(b"x", md, pymqi.PMO(Options=CMQC.MQPMO_SET_IDENTITY_CONTEXT))
    assert (md.UserIdentifier, md.ApplIdentityData) == (b"bob".ljust(12), b"i".ljust(32))
    assert md.PutApplName != b"n".ljust(28)
    assert md.PutDate == START_DATE


def test_P06_put_time_is_that_of_the_put_in_hundredths(
    clock: VirtualClock, queue: pymqi.Queue
) -> None:
    times = []
    for step_ms in (9, 1, 40_000 - 10):
        clock.advance(step_ms)
        md = pymqi.MD()
        queue.put(b"x", md)
        times.append(md.PutTime)
    assert times == [b"22132000", b"22132001", b"22140000"]


def test_P08_message_longer_than_the_queue_takes_is_refused(
    queue_manager: QueueManager, queue: pymqi.Queue, fails: Fails
) -> None:
    queue_manager.mqsc("ALTER QLOCAL(Q1) MAXMSGL(10) MAXDEPTH(1)")
    assert fails(queue.put, bytes(11)).reason == CMQC.MQRC_MSG_TOO_BIG_FOR_Q
    assert queue_manager.curdepth("Q1") == 0
    queue.put(bytes(10))
    assert fails(queue.put, b"").reason == CMQC.MQRC_Q_FULL
    assert queue_manager.curdepth("Q1") == 1


def test_P08_message_longer_than_the_queue_manager_takes_is_refused(
    queue_manager: QueueManager, queue: pymqi.Queue, fails: Fails
) -> None:
    queue_manager.mqsc("ALTER QMGR MAXMSGL(40000)")
    assert fails(queue.put, bytes(40_001)).reason == CMQC.MQRC_MSG_TOO_BIG_FOR_Q_MGR
    queue.put(bytes(40_000))
    assert queue.get() == bytes(40_000)


def test_C05_put_inhibited(queue_manager: QueueManager, queue: pymqi.Queue, fails: Fails) -> None:
    queue_manager.mqsc("ALTER QLOCAL(Q1) PUT(DISABLED)")
    assert fails(queue.put, b"x").reason == CMQC.MQRC_PUT_INHIBITED
    assert queue_manager.curdepth("Q1") == 0


def test_P09_syncpoint_put_is_seen_by_others_at_commit_only(
    queue_manager: QueueManager, connection: pymqi.QueueManager, queue: pymqi.Queue, fails: Fails
) -> None:
    other = pymqi.Queue(pymqi.connect("QM1"), "Q1")
    queue.put(b"1", pymqi.MD(), pymqi.PMO(Options=CMQC.MQPMO_SYNCPOINT))
    assert queue_manager.curdepth("Q1") == 1
    assert fails(other.get).reason == CMQC.MQRC_NO_MSG_AVAILABLE
    connection.commit()
    assert other.get() == b"1"
    queue.put(b"2", pymqi.MD(), pymqi.PMO(Options=CMQC.MQPMO_SYNCPOINT))
    connection.put1("Q1", b"3", pymqi.MD(), pymqi.PMO(Options=CMQC.MQPMO_SYNCPOINT))
    assert queue_manager.curdepth("Q1") == 2
    connection.backout()
    assert queue_manager.curdepth("Q1") == 0


@pytest.mark.parametrize(
    ("body", "sent"), [("grün", "grün".encode()), ("", b"")], ids=["text", "empty"]
)
def test_text_body_is_sent_as_utf8_and_says_so(queue: pymqi.Queue, body: str, sent: bytes) -> None:
    md = pymqi.MD()
    queue.put(body, md)
    assert md.Format == CMQC.MQFMT_STRING
    got = pymqi.MD()
    assert queue.get(None, got) == sent
    assert (got.CodedCharSetId, got.Format) == (1208, CMQC.MQFMT_STRING)


def test_text_body_is_sent_as_the_connection_says(queue_manager: QueueManager) -> None:
    queue_manager.mqsc("DEFINE QLOCAL(Q1)")
    connection = pymqi.connect("QM1", bytes_encoding="latin-1", default_ccsid=819)
    connection.put1("Q1", "grün")
    got = pymqi.MD()
    assert pymqi.Queue(connection, "Q1").get(None, got) == b"gr\xfcn"
    assert got.CodedCharSetId == 819


@pytest.mark.parametrize("body", [5, None, ["x"], bytearray(b"x")], ids=repr)
def test_body_that_is_neither_bytes_nor_text_is_a_type_error(
    queue_manager: QueueManager, queue: pymqi.Queue, body: object
) -> None:
    with pytest.raises(TypeError, match="bytes or str"):
        queue.put(body)  # type: ignore[arg-type]  # the wrong type is the point
    assert queue_manager.curdepth("Q1") == 0


def test_wrong_arguments_are_type_errors(queue: pymqi.Queue) -> None:
    with pytest.raises(TypeError, match="MD expected, not PMO"):
        queue.put(b"x", pymqi.PMO())
    with pytest.raises(TypeError, match="PMO expected, not GMO"):
        queue.put(b"x", pymqi.MD(), pymqi.GMO())
    with pytest.raises(TypeError, match="3 arguments"):
        queue.put(b"x", None, None, None)


def test_every_descriptor_field_comes_through(queue: pymqi.Queue) -> None:
    sent = {
        "Version": 2,
        "MsgType": CMQC.MQMT_REPLY,
        "Feedback": 66_000,
        "Encoding": 273,
        "CodedCharSetId": 37,
        "Format": b"MYFORMAT",
        "Priority": 3,
        "Persistence": CMQC.MQPER_PERSISTENT,
        "MsgId": bytes(range(1, 25)),
        "CorrelId": bytes(range(2, 26)),
        "ReplyToQ": b"R".ljust(48),
        "ReplyToQMgr": b"QM9".ljust(48),
        "GroupId": bytes(range(3, 27)),
        "MsgSeqNumber": 2,
        "Offset": 5,
        "MsgFlags": CMQC.MQMF_LAST_MSG_IN_GROUP | CMQC.MQMF_MSG_IN_GROUP | CMQC.MQMF_SEGMENT,
        "OriginalLength": 77,
    }
    queue.put(b"x", pymqi.MD(**sent))
    got = pymqi.MD(Version=2, Encoding=0)
    queue.get(None, got)
    assert {name: got[name] for name in sent} == sent


def test_version_1_leaves_the_fields_of_version_2_alone(queue: pymqi.Queue) -> None:
    queue.put(b"x", pymqi.MD(GroupId=b"G", MsgSeqNumber=9))
    got = pymqi.MD(Version=2)
    queue.get(None, got)
    assert (got.GroupId, got.MsgSeqNumber) == (bytes(24), 1)
