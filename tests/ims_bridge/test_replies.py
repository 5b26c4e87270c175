"""E30: what the reply of the IMS bridge says, and how long it lives."""

from __future__ import annotations

from typing import Any

import pytest

from mayfly import QueueManager
from mayfly.engine import Session
from mayfly.ims_bridge import ImsBridge, Request
from mayfly.mqi import constants as c
from mayfly.mqi import structures
from mayfly.pymqi import IIH
from mayfly.testing import VirtualClock
from tests.ims_bridge.scene import (
    DEAD,
    HEADER_BYTES,
    IMS,
    PASS_EXPIRATION,
    REPLIES,
    answering,
    ask,
    asking,
    dead_header,
    got,
)
from tests.spec.remote_scene import embedded
from tests.spec.scene import put_md

CORREL_ID = b"C" * 24
MSG_ID = b"M" * 24


def test_E30_reply_is_unlimited_without_the_flag(
    manager: QueueManager, session: Session, clock: VirtualClock
) -> None:
    ask(session, life_ms=20_000, report=c.MQRO_EXPIRATION)
    assert answering(manager).run_once() == 1
    clock.advance(1_000_000)
    reply = got(session)
    assert reply.remaining_tenths == c.MQEI_UNLIMITED
    assert reply.descriptor.report == c.MQRO_NONE
    assert reply.descriptor.reply_to_q == ""


@pytest.mark.parametrize("flags", [0x1, 0x1 | 0x8 | 0x10 | 0x20])
def test_E30_reply_has_what_was_left_with_no_deduction_for_the_time_in_the_bridge(
    manager: QueueManager, session: Session, clock: VirtualClock, flags: int
) -> None:
    ask(session, flags, life_ms=20_000)
    clock.advance(12_345)
    assert answering(manager, lambda: clock.advance(5_000)).run_once() == 1
    reply = got(session)
    assert reply.remaining_ms == 7_655
    assert reply.remaining_tenths == 77


@pytest.mark.parametrize(("waited_ms", "is_there"), [(7_654, True), (7_655, False), (7_656, False)])
def test_E30_reply_expires_when_what_was_left_has_passed_since_its_put(
    manager: QueueManager, session: Session, clock: VirtualClock, waited_ms: int, is_there: bool
) -> None:
    ask(session, PASS_EXPIRATION, life_ms=20_000)
    clock.advance(12_345)
    answering(manager, lambda: clock.advance(5_000)).run_once()
    clock.advance(waited_ms)
    assert (session.get(REPLIES) is not None) is is_there


def test_E30_request_that_expires_in_the_bridge_is_still_answered_with_what_was_left(
    manager: QueueManager, session: Session, clock: VirtualClock
) -> None:
    ask(session, PASS_EXPIRATION, life_ms=1_000)
    clock.advance(999)
    assert answering(manager, lambda: clock.advance(60_000)).run_once() == 1
    assert got(session).remaining_ms == 1


def test_E30_flag_passes_no_end_on_when_the_request_has_none(
    manager: QueueManager, session: Session
) -> None:
    ask(session, PASS_EXPIRATION)
    answering(manager).run_once()
    assert got(session).remaining_tenths == c.MQEI_UNLIMITED


@pytest.mark.parametrize(
    "option",
    [
        c.MQRO_NONE,
        c.MQRO_EXPIRATION,
        c.MQRO_EXPIRATION_WITH_DATA,
        c.MQRO_EXPIRATION_WITH_FULL_DATA,
    ],
)
def test_E30_reply_takes_the_expiration_report_options_and_no_others(
    manager: QueueManager, session: Session, option: int
) -> None:
    others = c.MQRO_EXCEPTION | c.MQRO_COA | c.MQRO_PASS_CORREL_ID
    ask(session, PASS_EXPIRATION, life_ms=1_000, report=option | others)
    coa = got(session)
    assert coa.descriptor.feedback == c.MQFB_COA
    answering(manager).run_once()
    assert got(session).descriptor.report == option


def test_E30_reply_that_expires_is_reported_to_where_it_was_to_be_got(
    manager: QueueManager, session: Session, clock: VirtualClock
) -> None:
    ask(session, PASS_EXPIRATION, life_ms=1_000, report=c.MQRO_EXPIRATION_WITH_FULL_DATA)
    answering(manager).run_once()
    (reply,) = session.browse(REPLIES)
    clock.advance(1_000)
    assert session.get(REPLIES, correl_id=reply.correl_id) is None
    report = got(session)
    assert report.descriptor.feedback == c.MQFB_EXPIRATION
    assert report.correl_id == reply.msg_id
    assert report.body == reply.body


def test_E30_cap_of_the_reply_queue_limits_an_unlimited_reply(
    manager: QueueManager, session: Session
) -> None:
    assert manager.mqsc("ALTER QLOCAL(REPLIES) CAPEXPRY(50)").ok
    ask(session)
    answering(manager).run_once()
    assert got(session).remaining_ms == 5_000


@pytest.mark.parametrize(("early_ms", "calls"), [(1, 1), (0, 0), (-1, 0)])
def test_E4_expired_request_never_reaches_the_transaction(
    manager: QueueManager, session: Session, clock: VirtualClock, early_ms: int, calls: int
) -> None:
    seen: list[str] = []
    ask(session, life_ms=20_000, report=c.MQRO_EXPIRATION)
    clock.advance(20_000 - early_ms)
    assert answering(manager, lambda: seen.append("called")).run_once() == calls
    assert len(seen) == calls
    assert manager.curdepth(IMS) == 0
    told = got(session).descriptor
    if calls:
        assert told.msg_type == c.MQMT_REPLY
    else:
        assert (told.msg_type, told.feedback) == (c.MQMT_REPORT, c.MQFB_EXPIRATION)
    assert session.get(REPLIES) is None


@pytest.mark.parametrize(
    ("report", "msg_id", "correl_id"),
    [
        (0, None, MSG_ID),
        (c.MQRO_PASS_CORREL_ID, None, CORREL_ID),
        (c.MQRO_PASS_MSG_ID, MSG_ID, MSG_ID),
        (c.MQRO_PASS_MSG_ID | c.MQRO_PASS_CORREL_ID, MSG_ID, CORREL_ID),
    ],
)
def test_ids_of_the_reply_are_those_the_report_options_ask_for(
    manager: QueueManager,
    session: Session,
    report: int,
    msg_id: bytes | None,
    correl_id: bytes,
) -> None:
    body = IIH().pack()
    put_md(session, IMS, body, asking(report=report), msg_id=MSG_ID, correl_id=CORREL_ID)
    answering(manager).run_once()
    reply = got(session)
    assert reply.correl_id == correl_id
    assert reply.msg_id == msg_id or (msg_id is None and reply.msg_id not in (MSG_ID, CORREL_ID))


@pytest.mark.parametrize("persistence", [c.MQPER_PERSISTENT, c.MQPER_NOT_PERSISTENT])
def test_descriptor_of_the_reply_is_made_of_the_request(
    manager: QueueManager, session: Session, persistence: int
) -> None:
    assert manager.mqsc("ALTER QLOCAL(REPLIES) DEFPRTY(1) DEFPSIST(YES)").ok
    request = asking(
        priority=7,
        persistence=persistence,
        user_identifier="anna",
        accounting_token=b"T" * 32,
        appl_identity_data="travel",
        feedback=66_000,
    )
    put_md(session, IMS, IIH().pack(), request, options=c.MQPMO_SET_ALL_CONTEXT)
    answering(manager).run_once()
    reply = got(session)
    told = reply.descriptor
    assert (told.msg_type, told.feedback, told.format) == (c.MQMT_REPLY, c.MQFB_NONE, "MQIMS")
    assert (told.priority, told.persistence) == (7, persistence)
    assert (told.user_identifier, told.appl_identity_data) == ("anna", "travel")
    assert told.accounting_token == b"T" * 32
    assert (told.put_appl_type, told.put_appl_name) == (c.MQAT_XCF, IMS)
    assert told.reply_to_q == ""
    assert reply.put_date != ""
    assert reply.backout_count == 0


@pytest.mark.parametrize(("flags", "reply_format"), [(0, "MQSTR"), (0x8, "")])
def test_reply_begins_with_a_header_that_describes_the_answer(
    manager: QueueManager, session: Session, flags: int, reply_format: str
) -> None:
    header = IIH(
        Flags=flags,
        Format=b"MQIMSVS",
        ReplyToFormat=b"MQSTR",
        LTermOverride=b"TERMINAL",
        MFSMapName=b"MAP",
        Authenticator=b"SECRET",
        CommitMode=b"1",
        SecurityScope=b"F",
    )
    put_md(session, IMS, header.pack() + b"question", asking())
    answering(manager).run_once()
    reply = got(session)
    assert reply.body[HEADER_BYTES:] == b"answer"
    assert structures.IIH.unpack(reply.body) == {
        **structures.IIH.initial(),
        "Encoding": c.MQENC_NATIVE,
        "Format": reply_format,
        "LTermOverride": "TERMINAL",
        "MFSMapName": "MAP",
        "CommitMode": "1",
        "SecurityScope": "",
    }


@pytest.mark.parametrize("format_name", ["MQIMSVS", "OWN"])
def test_request_without_header_is_answered_without_and_unlimited(
    manager: QueueManager, session: Session, clock: VirtualClock, format_name: str
) -> None:
    seen: list[tuple[bytes, IIH | None]] = []

    def transaction(request: Request, iih: IIH | None) -> bytes:
        seen.append((request, iih))
        return b"answer"

    put_md(session, IMS, b"question", asking(format=format_name), life_ms=20_000)
    ImsBridge(manager, queue=IMS, transaction=transaction).run_once()
    reply = got(session)
    assert seen == [(b"question", None)]
    assert (reply.body, reply.descriptor.format) == (b"answer", format_name)
    assert reply.remaining_tenths == c.MQEI_UNLIMITED


@pytest.mark.parametrize("encoding", [c.MQENC_NATIVE, 0x111])
def test_transaction_gets_data_header_and_message(
    manager: QueueManager, session: Session, encoding: int
) -> None:
    seen: list[tuple[Request, IIH | None]] = []

    def transaction(request: Request, iih: IIH | None) -> None:
        seen.append((request, iih))

    header = IIH(Flags=PASS_EXPIRATION, LTermOverride=b"TERMINAL").pack(encoding)
    put_md(session, IMS, header + b"question", asking(encoding=encoding), life_ms=20_000)
    assert ImsBridge(manager, queue=IMS, transaction=transaction).run_once() == 1
    ((request, iih),) = seen
    assert request == b"question"
    assert iih is not None
    assert (iih.Flags, iih.LTermOverride) == (PASS_EXPIRATION, b"TERMINAL")
    assert request.message.remaining_ms == 20_000
    assert manager.curdepth(REPLIES) == 0


def test_message_properties_before_the_header_are_passed_over(
    manager: QueueManager, session: Session
) -> None:
    session.put(
        IMS,
        IIH(Flags=PASS_EXPIRATION).pack() + b"question",
        time_to_live_ms=20_000,
        reply_to_q=REPLIES,
        format_name="MQIMS",
        properties={"colour": "red"},
    )
    answering(manager).run_once()
    reply = got(session)
    assert reply.body[HEADER_BYTES:] == b"answer"
    assert (reply.descriptor.format, reply.remaining_ms) == ("MQIMS", 20_000)


def test_E23_E30_reply_for_another_queue_manager_travels_with_what_was_left(
    manager: QueueManager, session: Session, clock: VirtualClock
) -> None:
    assert manager.mqsc("DEFINE QLOCAL(QM2) USAGE(XMITQ)").ok
    report = c.MQRO_EXPIRATION_WITH_DATA
    asked = ask(session, PASS_EXPIRATION, life_ms=20_000, report=report, reply_to_q_mgr="QM2")
    clock.advance(12_345)
    assert answering(manager, lambda: clock.advance(5_000)).run_once() == 1
    (travelling,) = session.browse("QM2")
    reply = embedded(travelling)
    assert reply.remote == (REPLIES, "QM2")
    assert (reply.expiry_tenths, travelling.remaining_ms) == (77, 7_655)
    assert (reply.correl_id, reply.body[HEADER_BYTES:]) == (asked, b"answer")
    assert reply.descriptor.report == report
    assert (reply.descriptor.reply_to_q, reply.descriptor.reply_to_q_mgr) == (REPLIES, "QM2")
    assert (manager.curdepth(IMS), manager.curdepth(REPLIES)) == (0, 0)


def test_request_and_reply_are_one_unit_of_work(manager: QueueManager, session: Session) -> None:
    depths: list[tuple[int, int, int]] = []

    def look() -> None:
        counts = manager.counts(IMS)
        depths.append((counts.live, counts.locked, manager.curdepth(REPLIES)))

    ask(session)
    answering(manager, look).run_once()
    assert depths == [(0, 1, 0)]
    assert (manager.curdepth(IMS), manager.curdepth(REPLIES)) == (0, 1)


@pytest.mark.parametrize(
    ("change", "fields", "reason"),
    [
        ("DELETE QLOCAL(REPLIES)", {}, 2085),
        ("ALTER QLOCAL(REPLIES) PUT(DISABLED)", {}, 2051),
        ("ALTER QLOCAL(REPLIES) MAXMSGL(10)", {}, 2030),
        ("ALTER QLOCAL(REPLIES) MAXDEPTH(0)", {}, 2053),
        ("", {"reply_to_q": "", "msg_type": c.MQMT_DATAGRAM}, 2027),
        ("", {"reply_to_q_mgr": "QM2"}, 2087),
    ],
)
def test_reply_that_its_queue_does_not_take_goes_to_the_dead_letter_queue(
    manager: QueueManager,
    session: Session,
    clock: VirtualClock,
    change: str,
    fields: dict[str, Any],
    reason: int,
) -> None:
    asked = ask(session, PASS_EXPIRATION, life_ms=20_000, **fields)
    assert not change or manager.mqsc(change).ok
    assert answering(manager, lambda: clock.advance(1_000)).run_once() == 1
    dead = got(session, DEAD)
    assert dead_header(dead) == (reason, fields.get("reply_to_q", REPLIES))
    meant_for = structures.DLH.unpack(dead.body)["DestQMgrName"]
    assert meant_for == fields.get("reply_to_q_mgr", "QM1")
    assert structures.DLH.unpack(dead.body)["Format"] == "MQIMS"
    assert dead.body[172 + HEADER_BYTES :] == b"answer"
    assert (dead.correl_id, dead.remaining_ms) == (asked, 20_000)
    assert manager.curdepth(IMS) == 0
