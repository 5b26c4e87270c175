"""Two lifetimes in transit, rules E6, E23-E29 and K3-K6, reports by way of a transmission queue."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from mayfly import QueueManager
from mayfly.engine import Session
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.descriptor import Descriptor
from mayfly.mqi.structures import DLH
from mayfly.testing import VirtualClock
from tests.over import NewSession
from tests.spec.remote_scene import EXPIRY, embedded, inner_expiry, network, transit
from tests.spec.scene import (
    DEAD,
    REPLIES,
    STAGING,
    START_MS,
    V2,
    alter_manager,
    by_msg_id,
    ends,
    lives,
    local,
    put_md,
    refused,
)

IN_TRANSIT = Descriptor(format="MQXMIT")


@pytest.fixture
def manager(queue_manager: QueueManager) -> QueueManager:
    """A queue manager with a remote queue ORDERS and its transmission queue QM2."""
    network(queue_manager)
    return queue_manager


@contextmanager
def with_settings(**settings: str | bool) -> Iterator[tuple[QueueManager, Session]]:
    """A queue manager of ``xqh`` settings with a transmission queue, and a session."""
    named = {f"xqh.{name}": value for name, value in settings.items()}
    with QueueManager("QM1", clock=VirtualClock(START_MS), settings=named) as manager:
        network(manager)
        with manager.session() as session:
            yield manager, session


def test_E23_both_expiries_are_set_to_the_value_of_the_application(
    manager: QueueManager, session: Session
) -> None:
    session.put("ORDERS", b"x", time_to_live_ms=60_000)
    message = session.get("QM2")
    assert message is not None
    assert message.remaining_tenths == 600
    assert inner_expiry(message) == 600


def test_E23_unlimited_is_unlimited_in_both(manager: QueueManager, session: Session) -> None:
    session.put("ORDERS", b"x")
    message = session.get("QM2")
    assert message is not None
    assert message.remaining_tenths == c.MQEI_UNLIMITED
    assert inner_expiry(message) == c.MQEI_UNLIMITED


@pytest.mark.parametrize("capped", ["QREMOTE(ORDERS)", "QLOCAL(QM2)"])
@pytest.mark.parametrize("life_ms", [None, 60_000])
def test_E23_a_cap_on_the_way_lowers_both(
    manager: QueueManager, session: Session, capped: str, life_ms: int | None
) -> None:
    manager.mqsc(f"ALTER {capped} CAPEXPRY(100)")
    session.put("ORDERS", b"x", time_to_live_ms=life_ms)
    message = session.get("QM2")
    assert message is not None
    assert (message.remaining_tenths, inner_expiry(message)) == (100, 100)


def test_E23_the_message_travels_whole(manager: QueueManager, session: Session) -> None:
    """Ids, context and what the application said of its data stand in the embedded descriptor."""
    asked = V2._replace(
        format="MQSTR",
        encoding=273,
        coded_char_set_id=819,
        reply_to_q=REPLIES,
        reply_to_q_mgr="QM1",
        report=c.MQRO_COA | c.MQRO_EXPIRATION,
        user_identifier="carl",
        put_appl_name="program",
        accounting_token=b"t" * 32,
        group_id=b"G" * 24,
        msg_seq_number=3,
        msg_flags=c.MQMF_MSG_IN_GROUP,
        priority=5,
        persistence=1,
    )
    result = put_md(
        session,
        "ORDERS",
        b"data",
        asked,
        correl_id=b"C" * 24,
        options=c.MQPMO_SET_ALL_CONTEXT,
    )
    message = session.get("QM2")
    inside = embedded(message)
    assert message is not None
    assert inside.msg_id == result.msg_id == message.correl_id != message.msg_id
    assert inside.correl_id == b"C" * 24
    assert inside.body == b"data"
    assert inside.descriptor == asked._replace(put_date="20231114", put_time="22132000")
    outer = message.descriptor
    assert outer.format == "MQXMIT"
    assert outer.report == c.MQRO_EXPIRATION
    assert (outer.put_appl_type, outer.put_appl_name) == (c.MQAT_QMGR, "QM1")
    assert (outer.msg_flags, outer.group_id) == (0, b"")


def test_E24_waiting_shortens_both_expiries(
    manager: QueueManager, session: Session, clock: VirtualClock
) -> None:
    session.put("ORDERS", b"x", time_to_live_ms=60_000)
    clock.advance(10_001)
    browsed = next(session.browse("QM2"))
    assert (browsed.remaining_tenths, inner_expiry(browsed)) == (500, 500)
    clock.advance(99)
    message = session.get("QM2")
    assert message is not None
    assert (message.remaining_tenths, inner_expiry(message)) == (499, 499)


def test_E24_on_an_ordinary_queue_as_well(
    manager: QueueManager, session: Session, clock: VirtualClock
) -> None:
    local(manager)
    put_md(session, "Q1", transit(Expiry=600), IN_TRANSIT, life_ms=60_000)
    clock.advance(10_000)
    assert inner_expiry(session.get("Q1")) == 500


def test_E24_byte_order_is_that_of_the_message(
    manager: QueueManager, session: Session, clock: VirtualClock
) -> None:
    local(manager)
    body = transit(Expiry=600)
    swapped = body[:120] + body[120:124][::-1] + body[124:]
    put_md(session, "Q1", swapped, IN_TRANSIT._replace(encoding=273), life_ms=60_000)
    clock.advance(10_000)
    message = session.get("Q1")
    assert message is not None
    assert message.body[EXPIRY] == (500).to_bytes(4, "big")


@pytest.mark.parametrize("length_bytes", [0, 3, 100, 123])
def test_E24_data_too_short_for_an_expiry_is_no_error(
    manager: QueueManager, session: Session, clock: VirtualClock, length_bytes: int
) -> None:
    local(manager)
    body = transit(Expiry=600)[:length_bytes]
    put_md(session, "Q1", body, IN_TRANSIT, life_ms=60_000)
    clock.advance(10_000)
    message = session.get("Q1")
    assert message is not None
    assert message.body == body


def test_E24_another_format_is_left_alone(
    manager: QueueManager, session: Session, clock: VirtualClock
) -> None:
    local(manager)
    put_md(session, "Q1", transit(Expiry=600), Descriptor(format="MQSTR"), life_ms=60_000)
    clock.advance(10_000)
    assert inner_expiry(session.get("Q1")) == 600


def test_E24_backed_out_it_is_counted_from_the_put(
    manager: QueueManager, unit: Session, clock: VirtualClock
) -> None:
    unit.put("ORDERS", b"x", time_to_live_ms=60_000)
    unit.commit()
    clock.advance(10_000)
    assert inner_expiry(unit.get("QM2")) == 500
    unit.backout()
    clock.advance(10_000)
    assert inner_expiry(unit.get("QM2")) == 400


def test_E25_only_the_outer_expiry_discards(
    manager: QueueManager, session: Session, clock: VirtualClock
) -> None:
    put_md(session, "QM2", transit(Expiry=10), IN_TRANSIT, life_ms=60_000)
    clock.advance(5_000)
    assert session.get("QM2") is not None
    put_md(session, "QM2", transit(Expiry=600), IN_TRANSIT, life_ms=1_000)
    clock.advance(1_000)
    assert session.get("QM2") is None
    assert [end.outcome for end in ends(manager, "QM2")] == ["got", "expired"]


@pytest.mark.parametrize(("waited_ms", "left"), [(999, 1), (1_000, 0), (1_001, 0), (50_000, 0)])
def test_E26_an_elapsed_embedded_expiry_is_returned_as_0(
    manager: QueueManager, session: Session, clock: VirtualClock, waited_ms: int, left: int
) -> None:
    put_md(session, "QM2", transit(Expiry=10), IN_TRANSIT, life_ms=60_000)
    clock.advance(waited_ms)
    message = session.get("QM2")
    assert message is not None
    assert message.body[EXPIRY] == left.to_bytes(4, "little")


def test_E27_embedded_unlimited_is_left_alone(clock: VirtualClock) -> None:
    with with_settings(expiry_conflict="allow") as (manager, session):
        put_md(session, "QM2", transit(), IN_TRANSIT, life_ms=60_000)
        assert isinstance(manager.clock, VirtualClock)
        manager.clock.advance(10_000)
        assert inner_expiry(session.get("QM2")) == c.MQEI_UNLIMITED


def test_E29_expires_before_it_has_left_and_is_reported_from_here(
    manager: QueueManager, session: Session, clock: VirtualClock
) -> None:
    """R8: the report is about the message that was put, not about its wrapping."""
    local(manager, REPLIES)
    asked = Descriptor(report=c.MQRO_EXPIRATION_WITH_FULL_DATA, reply_to_q=REPLIES, format="MQSTR")
    result = put_md(session, "ORDERS", b"words", asked, life_ms=1_000)
    clock.advance(999)
    assert len(list(session.browse("QM2"))) == 1
    clock.advance(1)
    assert session.get("QM2") is None
    assert manager.curdepth("QM2") == 0
    report = session.get(REPLIES)
    assert report is not None
    assert report.correl_id == result.msg_id
    assert report.body == b"words"
    assert report.descriptor.format == "MQSTR"
    assert report.descriptor.feedback == c.MQFB_EXPIRATION


def test_R8_the_report_takes_every_field_from_the_descriptor_that_was_put(
    manager: QueueManager, session: Session, clock: VirtualClock
) -> None:
    """The outer descriptor has no group, and not the options that the last queue must know."""
    local(manager, REPLIES)
    passed_on = c.MQRO_PASS_DISCARD_AND_EXPIRY | c.MQRO_DISCARD_MSG | c.MQRO_PASS_CORREL_ID
    asked = V2._replace(
        report=c.MQRO_EXPIRATION | passed_on,
        reply_to_q=REPLIES,
        format="MQSTR",
        persistence=c.MQPER_PERSISTENT,
        priority=7,
        user_identifier="carl",
        appl_identity_data="identity",
        group_id=b"G" * 24,
        msg_seq_number=3,
        msg_flags=c.MQMF_MSG_IN_GROUP | c.MQMF_LAST_MSG_IN_GROUP,
    )
    options = c.MQPMO_SET_ALL_CONTEXT
    put_md(session, "ORDERS", b"words", asked, correl_id=b"C" * 24, life_ms=1_000, options=options)
    clock.advance(1_000)
    assert session.get("QM2") is None
    report = session.get(REPLIES)
    assert report is not None
    found = report.descriptor
    assert (found.report, report.remaining_tenths) == (c.MQRO_DISCARD_MSG, 600)
    assert report.correl_id == b"C" * 24
    assert (found.group_id, found.msg_seq_number, found.msg_flags) == (
        b"G" * 24,
        3,
        c.MQMF_MSG_IN_GROUP | c.MQMF_LAST_MSG_IN_GROUP,
    )
    assert (found.version, found.original_length) == (2, 5)
    assert (found.priority, report.persistent) == (7, True)
    assert (found.user_identifier, found.appl_identity_data) == ("carl", "identity")


@pytest.mark.parametrize("embedded_report", [c.MQRO_NONE, c.MQRO_EXPIRATION_WITH_FULL_DATA])
def test_R8_a_header_made_by_hand_that_asks_for_no_report_leaves_it_to_the_outer_descriptor(
    manager: QueueManager, session: Session, clock: VirtualClock, embedded_report: int
) -> None:
    local(manager, REPLIES)
    local(manager, "OTHER")
    inside = {"ReplyToQ": "OTHER", "Report": embedded_report} if embedded_report else {}
    body = transit(b"words", MsgId=b"M" * 24, Expiry=10, MsgType=c.MQMT_DATAGRAM, **inside)
    asked = IN_TRANSIT._replace(report=c.MQRO_EXPIRATION, reply_to_q=REPLIES)
    put_md(session, "QM2", body, asked, life_ms=1_000)
    clock.advance(1_000)
    assert session.get("QM2") is None
    reports = {name: session.get(name) for name in (REPLIES, "OTHER")}
    report = reports.pop("OTHER" if embedded_report else REPLIES)
    assert [*reports.values()] == [None]
    assert report is not None
    assert (report.correl_id, report.body) == (b"M" * 24, b"words" if embedded_report else b"")


def test_R8_a_header_that_no_queue_could_take_is_reported_on_as_it_stands(
    manager: QueueManager, session: Session, clock: VirtualClock
) -> None:
    local(manager, REPLIES)
    body = transit(b"words", MsgId=b"M" * 24, Expiry=10, Persistence=7)
    asked = IN_TRANSIT._replace(report=c.MQRO_EXPIRATION, reply_to_q=REPLIES)
    result = put_md(session, "QM2", body, asked, life_ms=1_000)
    clock.advance(1_000)
    assert session.get("QM2") is None
    report = session.get(REPLIES)
    assert report is not None
    assert report.correl_id == result.msg_id


@pytest.mark.parametrize("delay_ms", [0, 1_000], ids=["on the queue", "on staging"])
def test_R8_on_an_ordinary_queue_the_report_is_about_the_message_that_was_put_there(
    manager: QueueManager, session: Session, clock: VirtualClock, delay_ms: int
) -> None:
    """Only a transmission queue wraps messages: elsewhere the MQXQH is the program's own data."""
    local(manager)
    local(manager, REPLIES)
    asked = IN_TRANSIT._replace(report=c.MQRO_EXPIRATION_WITH_FULL_DATA, reply_to_q=REPLIES)
    body = transit(b"words", MsgId=b"M" * 24, CorrelId=b"C" * 24, Expiry=10, Format="MQSTR")
    result = put_md(session, "Q1", body, asked, life_ms=1_000, delay_ms=delay_ms)
    clock.advance(1_000)
    assert session.get("Q1") is None
    report = session.get(REPLIES)
    assert report is not None
    assert report.descriptor.feedback == c.MQFB_EXPIRATION
    assert report.correl_id == result.msg_id
    assert (report.descriptor.format, report.body) == ("MQXMIT", body)


@pytest.mark.parametrize(("delay_ms", "left"), [(10_000, 500), (60_000, 0), (1, 600)])
def test_E24_a_delayed_message_in_transit_that_becomes_a_dead_letter_has_aged_inside_too(
    manager: QueueManager, session: Session, clock: VirtualClock, delay_ms: int, left: int
) -> None:
    local(manager)
    alter_manager(manager, DEADQ=DEAD)
    put_md(session, "Q1", transit(Expiry=600), IN_TRANSIT, life_ms=90_000, delay_ms=delay_ms)
    manager.mqsc("ALTER QLOCAL(Q1) PUT(DISABLED)")
    clock.advance(delay_ms)
    letter = session.get(DEAD)
    assert letter is not None
    assert letter.remaining_ms == 90_000 - delay_ms
    dead = DLH.length(1)
    assert letter.body[dead : dead + 4] == b"XQH "
    inner = letter.body[dead:][EXPIRY]
    assert int.from_bytes(inner, "little", signed=True) == left


def test_COA_is_left_to_the_last_queue(manager: QueueManager, session: Session) -> None:
    local(manager, REPLIES)
    asked = Descriptor(report=c.MQRO_COA | c.MQRO_COD, reply_to_q=REPLIES)
    put_md(session, "ORDERS", b"x", asked)
    inside = embedded(session.get("QM2"))
    assert manager.curdepth(REPLIES) == 0
    assert inside.descriptor.report == c.MQRO_COA | c.MQRO_COD


@pytest.mark.parametrize(
    ("body", "descriptor"),
    [
        (transit(), Descriptor(format="MQSTR")),
        (b"no header", IN_TRANSIT),
        (transit()[:427], IN_TRANSIT),
        (transit()[:123], IN_TRANSIT),
        (b"", IN_TRANSIT),
    ],
    ids=["format", "no header", "cut", "no expiry", "empty"],
)
def test_K3_what_is_put_there_must_be_in_transit(
    manager: QueueManager, session: Session, body: bytes, descriptor: Descriptor
) -> None:
    with refused(rc.MQRC_XQH_ERROR):
        put_md(session, "QM2", body, descriptor)
    assert manager.curdepth("QM2") == 0


def test_K3_switched_off_anything_may_be_put() -> None:
    with with_settings(enforce_format=False) as (manager, session):
        session.put("QM2", b"anything")
        put_md(session, "QM2", transit()[:427], IN_TRANSIT)
        assert manager.curdepth("QM2") == 2
        with refused(rc.MQRC_XQH_ERROR):
            put_md(session, "QM2", transit()[:123], IN_TRANSIT)


@pytest.mark.parametrize("expiry", [0, -2, -(2**31)])
def test_K4_embedded_expiry_must_be_valid(
    manager: QueueManager, session: Session, expiry: int
) -> None:
    with refused(rc.MQRC_EXPIRY_ERROR):
        put_md(session, "QM2", transit(Expiry=expiry), IN_TRANSIT, life_ms=1_000)
    assert manager.curdepth("QM2") == 0


def test_K4_upper_bound_is_that_of_E3(new_session: NewSession) -> None:
    with QueueManager("QM1", settings={"expiry.max_check": "always"}) as manager:
        network(manager)
        with new_session(manager) as session:
            put_md(session, "QM2", transit(Expiry=999_999_999), IN_TRANSIT, life_ms=1_000)
            with refused(rc.MQRC_EXPIRY_ERROR):
                put_md(session, "QM2", transit(Expiry=10**9), IN_TRANSIT, life_ms=1_000)


def test_K4_K5_switched_off() -> None:
    with with_settings(check_expiry=False, enforce_format=False) as (manager, session):
        put_md(session, "QM2", transit(Expiry=0), IN_TRANSIT, life_ms=1_000)
        put_md(session, "QM2", transit()[:123], IN_TRANSIT, life_ms=1_000)
        assert manager.curdepth("QM2") == 2


@pytest.mark.parametrize(
    ("rule", "outer_ms", "inner", "passes"),
    [
        ("consistent", None, -1, True),
        ("consistent", 60_000, 600, True),
        ("consistent", 60_000, 10, True),
        ("consistent", None, 600, False),
        ("consistent", 60_000, -1, False),
        ("reject", 60_000, 600, True),
        ("reject", 60_000, 599, False),
        ("reject", None, -1, True),
        ("allow", None, 600, True),
        ("allow", 60_000, -1, True),
    ],
)
def test_K6_outer_and_embedded_expiry(
    rule: str, outer_ms: int | None, inner: int, passes: bool
) -> None:
    with with_settings(expiry_conflict=rule) as (manager, session):
        if passes:
            put_md(session, "QM2", transit(Expiry=inner), IN_TRANSIT, life_ms=outer_ms)
        else:
            with refused(rc.MQRC_EXPIRY_ERROR):
                put_md(session, "QM2", transit(Expiry=inner), IN_TRANSIT, life_ms=outer_ms)
        assert manager.curdepth("QM2") == int(passes)


def test_K6_is_judged_before_any_cap(manager: QueueManager, session: Session) -> None:
    manager.mqsc("ALTER QLOCAL(QM2) CAPEXPRY(100)")
    put_md(session, "QM2", transit(), IN_TRANSIT)
    message = session.get("QM2")
    assert message is not None
    assert message.remaining_tenths == 100


@pytest.mark.parametrize("expiry", [0, -5])
def test_K4_on_an_ordinary_queue_nothing_is_checked(
    manager: QueueManager, session: Session, expiry: int
) -> None:
    local(manager)
    put_md(session, "Q1", transit(Expiry=expiry), IN_TRANSIT)
    assert inner_expiry(session.get("Q1")) == expiry


def test_R2_a_report_travels_to_the_queue_manager_of_the_reply(
    manager: QueueManager, session: Session, clock: VirtualClock
) -> None:
    local(manager)
    result = session.put(
        "Q1", b"x", time_to_live_ms=1_000, report=c.MQRO_EXPIRATION, reply_to_q="ANSWERS@QM2"
    )
    clock.advance(1_000)
    assert session.get("Q1") is None
    inside = embedded(session.get("QM2"))
    assert inside.remote == ("ANSWERS", "QM2")
    assert inside.correl_id == result
    assert inside.descriptor.feedback == c.MQFB_EXPIRATION


def test_R4_a_report_that_finds_no_way_is_dead_lettered(
    manager: QueueManager, session: Session, clock: VirtualClock
) -> None:
    local(manager)
    alter_manager(manager, DEADQ=DEAD)
    session.put(
        "Q1", b"x", time_to_live_ms=1_000, report=c.MQRO_EXPIRATION, reply_to_q="ANSWERS@QM9"
    )
    clock.advance(1_000)
    assert session.get("Q1") is None
    letter = session.get(DEAD)
    assert letter is not None
    assert int.from_bytes(letter.body[8:12], "little") == rc.MQRC_UNKNOWN_REMOTE_Q_MGR
    assert letter.body[12:60].rstrip() == b"ANSWERS"
    assert letter.body[60:108].rstrip() == b"QM9"


@pytest.mark.parametrize("name", ["ORDERS", "Q.REMOTE@QM2"])
def test_D17_a_delay_comes_first_and_the_clock_runs_through_both(
    manager: QueueManager, session: Session, clock: VirtualClock, name: str
) -> None:
    msg_id = session.put(name, b"x", delay_ms=5_000, time_to_live_ms=20_000, correl_id=b"C" * 24)
    assert manager.curdepth("QM2") == 0
    clock.advance(4_999)
    assert manager.curdepth("QM2") == 0
    clock.advance(1)
    assert manager.curdepth("QM2") == 1
    clock.advance(10_000)
    message = session.get("QM2")
    inside = embedded(message)
    assert message is not None
    assert (message.remaining_tenths, inner_expiry(message)) == (50, 50)
    assert (inside.msg_id, inside.correl_id) == (msg_id, b"C" * 24)
    assert inside.remote == ("Q.REMOTE", "QM2")


def test_life_on_the_transmission_queue_after_a_delay_names_the_staged_one(
    manager: QueueManager, session: Session, clock: VirtualClock
) -> None:
    """Staged, in transit: one chain of lives, each under a MsgId of its own."""
    session.put("ORDERS", b"x", delay_ms=1_000)
    [staged] = session.browse(STAGING)
    clock.advance(1_000)
    message = session.get("QM2")
    assert message is not None
    [before], [life] = lives(manager, STAGING), lives(manager, "QM2")
    assert (before.outcome, before.msg_id) == ("released", staged.msg_id)
    assert (life.msg_id, life.origin_id) == (message.msg_id, staged.msg_id)
    assert staged.msg_id != message.msg_id


def test_D15_the_way_is_looked_for_again_when_the_delay_is_over(
    manager: QueueManager, session: Session, clock: VirtualClock
) -> None:
    alter_manager(manager, DEADQ=DEAD)
    session.put("ORDERS", b"x", delay_ms=1_000)
    session.put("ORDERS", b"y", delay_ms=2_000)
    manager.mqsc("DEFINE QLOCAL(XQ) USAGE(XMITQ)\nALTER QREMOTE(ORDERS) XMITQ(XQ)")
    clock.advance(1_000)
    assert (manager.curdepth("XQ"), manager.curdepth("QM2")) == (1, 0)
    manager.mqsc("ALTER QREMOTE(ORDERS) XMITQ(GONE)")
    clock.advance(1_000)
    letter = session.get(DEAD)
    assert letter is not None
    assert int.from_bytes(letter.body[8:12], "little") == rc.MQRC_UNKNOWN_XMIT_Q


def test_D3_a_delayed_message_for_elsewhere_can_be_cancelled_by_its_id(
    manager: QueueManager, session: Session, clock: VirtualClock
) -> None:
    msg_id = session.put("Q.REMOTE@QM2", b"x", delay_ms=1_000)
    staged = session.get("SYSTEM.DDELAY.LOCAL.QUEUE", correl_id=msg_id)
    assert staged is not None
    clock.advance(1_000)
    assert manager.curdepth("QM2") == 0


def test_D2_put_back_on_staging_it_still_goes_elsewhere(
    manager: QueueManager, session: Session, clock: VirtualClock
) -> None:
    """The header names queue and queue manager."""
    msg_id = session.put("Q.REMOTE@QM2", b"x", delay_ms=1_000)
    staged = session.get("SYSTEM.DDELAY.LOCAL.QUEUE", correl_id=msg_id)
    assert staged is not None
    put_md(session, "SYSTEM.DDELAY.LOCAL.QUEUE", staged.body, staged.descriptor)
    clock.advance(1_000)
    assert embedded(session.get("QM2")).remote == ("Q.REMOTE", "QM2")


def test_a_subscription_may_have_its_queue_elsewhere(
    manager: QueueManager, session: Session
) -> None:
    result = manager.mqsc("DEFINE SUB(S1) TOPICSTR('News') DEST(NEWS) DESTQMGR(QM2)")
    assert result.ok, result.text
    session.publish("News", b"n", time_to_live_ms=5_000)
    message = session.get("QM2")
    assert embedded(message).remote == ("NEWS", "QM2")
    assert inner_expiry(message) == 50


def test_E24_by_id_as_well(manager: QueueManager, session: Session, clock: VirtualClock) -> None:
    session.put("ORDERS", b"x", time_to_live_ms=60_000)
    clock.advance(1_000)
    seen = next(session.browse("QM2"))
    assert by_msg_id(seen.msg_id).msg_id == seen.msg_id
    assert inner_expiry(session.get("QM2", msg_id=seen.msg_id)) == 590
