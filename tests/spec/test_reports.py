"""Report messages, rules R1-R10 and every row of the field table of mq.md 4.3."""

import pytest

from mayfly import QueueManager
from mayfly.engine.message import Message
from mayfly.engine.session import Session
from mayfly.lifetime.reports import Cause
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.descriptor import Descriptor
from mayfly.mqi.structures import DLH, MDE, RFH2
from mayfly.testing import VirtualClock
from tests.spec.scene import (
    BROWSE,
    DEAD,
    INPUT,
    REPLIES,
    START_MS,
    V2,
    ZERO_ID,
    End,
    alter,
    alter_manager,
    body,
    ends,
    local,
    put_md,
    take,
)

#: When each report of these tests is made, after the put at START_MS.
MADE_MS = {Cause.EXPIRATION: 2_000, Cause.EXCEPTION: 1_000, Cause.COA: 0, Cause.COD: 500}
FEEDBACK = {
    Cause.EXPIRATION: c.MQFB_EXPIRATION,
    Cause.EXCEPTION: rc.MQRC_PUT_INHIBITED,
    Cause.COA: c.MQFB_COA,
    Cause.COD: c.MQFB_COD,
}
CAUSES = pytest.mark.parametrize("cause", list(Cause), ids=lambda cause: cause.name)
DATA, FULL = 2, 4
ORIGINAL = V2._replace(
    reply_to_q=REPLIES,
    format="MQSTR",
    encoding=273,
    coded_char_set_id=1208,
    priority=7,
    persistence=c.MQPER_PERSISTENT,
    user_identifier="carl",
    accounting_token=b"token",
    appl_identity_data="identity",
    appl_origin_data="orig",
    put_appl_name="program",
    put_appl_type=c.MQAT_JAVA,
    group_id=b"G" * 24,
    msg_seq_number=3,
    offset=5,
    msg_flags=c.MQMF_MSG_IN_GROUP,
)
BODY = bytes(range(250))
MSG_ID, CORREL_ID = b"M".ljust(24, b"m"), b"C".ljust(24, b"c")


@pytest.fixture
def manager(queue_manager: QueueManager) -> QueueManager:
    """The queue manager with a queue, a reply queue and a dead-letter queue."""
    local(queue_manager)
    local(queue_manager, REPLIES)
    alter_manager(queue_manager, DEADQ=DEAD)
    return queue_manager


def cause_report(
    qm: QueueManager, cause: Cause, original: Descriptor, data: bytes = BODY, life_ms: int = 2_000
) -> None:
    """Put an original and let happen to it what owes the report."""
    clock = qm.clock
    assert isinstance(clock, VirtualClock)
    is_delayed = cause is Cause.EXCEPTION
    with qm.session("bert") as session:
        put_md(
            session,
            "Q1",
            data,
            original,
            msg_id=MSG_ID,
            correl_id=CORREL_ID,
            life_ms=life_ms,
            delay_ms=1_000 if is_delayed else 0,
            options=c.MQPMO_SET_ALL_CONTEXT,
        )
        if is_delayed:
            alter(qm, "Q1", PUT=c.MQQA_PUT_INHIBITED)
        clock.advance(MADE_MS[cause])
        if cause is not Cause.COA:
            session.get("Q1")


def report_of(
    qm: QueueManager, cause: Cause, original: Descriptor, data: bytes = BODY, life_ms: int = 2_000
) -> Message:
    """Return the report about an original."""
    cause_report(qm, cause, original, data, life_ms)
    with qm.session() as session:
        report = session.get(REPLIES)
        assert session.get(REPLIES) is None
    assert report is not None
    return report


def asking(cause: Cause, more: int = 0) -> Descriptor:
    """Return the original that asks for a report."""
    return ORIGINAL._replace(report=cause.value | more)


@CAUSES
def test_R_fields_that_are_the_same_for_every_report(manager: QueueManager, cause: Cause) -> None:
    report = report_of(manager, cause, asking(cause))
    descriptor = report.descriptor
    assert descriptor.version == 2
    assert descriptor.report == c.MQRO_NONE
    assert descriptor.msg_type == c.MQMT_REPORT
    assert descriptor.feedback == FEEDBACK[cause]
    assert (descriptor.priority, descriptor.persistence) == (7, c.MQPER_PERSISTENT)
    assert report.remaining_tenths == c.MQEI_UNLIMITED
    assert report.backout_count == 0
    assert (descriptor.reply_to_q, descriptor.reply_to_q_mgr) == ("", "QM1")
    assert descriptor.user_identifier == "carl"
    assert descriptor.accounting_token == b"token"
    assert descriptor.appl_identity_data == "identity"
    assert descriptor.appl_origin_data == ""
    assert (descriptor.put_appl_type, descriptor.put_appl_name) == (c.MQAT_QMGR, "QM1")
    assert descriptor.group_id == b"G" * 24
    assert (descriptor.msg_seq_number, descriptor.offset) == (3, 5)
    assert descriptor.msg_flags == c.MQMF_MSG_IN_GROUP
    assert descriptor.original_length == len(BODY)
    assert report.put_ms == START_MS + MADE_MS[cause]
    seconds = 20 + MADE_MS[cause] // 1_000
    hundredths = MADE_MS[cause] % 1_000 // 10
    assert (report.put_date, report.put_time) == ("20231114", f"2213{seconds:02}{hundredths:02}")


@CAUSES
def test_R1_plain_report_has_no_data_and_no_format(manager: QueueManager, cause: Cause) -> None:
    report = report_of(manager, cause, asking(cause))
    assert report.body == b""
    assert report.descriptor.format == ""


@CAUSES
def test_R1_with_data_has_the_first_100_bytes(manager: QueueManager, cause: Cause) -> None:
    """Described as they were: Encoding, CCSID and Format of the original."""
    report = report_of(manager, cause, asking(cause, cause.value * DATA))
    assert report.body == BODY[:100]
    descriptor = report.descriptor
    assert descriptor.format == "MQSTR"
    assert (descriptor.encoding, descriptor.coded_char_set_id) == (273, 1208)
    assert descriptor.original_length == len(BODY)


@CAUSES
@pytest.mark.parametrize("length", [0, 99, 100, 101])
def test_R1_with_data_at_the_boundary(manager: QueueManager, cause: Cause, length: int) -> None:
    report = report_of(manager, cause, asking(cause, cause.value * DATA), b"x" * length)
    assert len(report.body) == min(length, 100)
    assert report.descriptor.format == ("MQSTR" if length else "")


@CAUSES
def test_R1_with_full_data_has_everything(manager: QueueManager, cause: Cause) -> None:
    report = report_of(manager, cause, asking(cause, cause.value * (DATA | FULL)))
    assert report.body == BODY
    assert report.descriptor.format == "MQSTR"


@CAUSES
@pytest.mark.parametrize("encoding", [546, 273], ids=["little", "big"])
def test_R1_leading_headers_come_on_top_of_the_100_bytes(
    manager: QueueManager, cause: Cause, encoding: int
) -> None:
    """An RFH2 with a folder, then an MDE, in the byte order that the Encoding says."""
    is_big = encoding == 273
    folder = b"<usr><a>1</a></usr> "
    length = len(folder).to_bytes(4, "big" if is_big else "little")
    rfh2 = RFH2.pack(
        {"StrucLength": 36 + 4 + len(folder), "Format": "MQHMDE", "Encoding": encoding},
        big_endian=is_big,
    )
    mde = MDE.pack({"Format": "MQSTR", "Encoding": encoding}, big_endian=is_big)
    headers = rfh2 + length + folder + mde
    original = asking(cause, cause.value * DATA)._replace(format="MQHRF2", encoding=encoding)
    report = report_of(manager, cause, original, headers + BODY)
    assert report.body == headers + BODY[:100]
    assert report.descriptor.format == "MQHRF2"


@CAUSES
def test_R1_each_header_says_the_byte_order_of_the_next(
    manager: QueueManager, cause: Cause
) -> None:
    rfh2 = RFH2.pack({"Format": "MQHMDE", "Encoding": 273})
    mde = MDE.pack({"Format": "MQSTR"}, big_endian=True)
    original = asking(cause, cause.value * DATA)._replace(format="MQHRF2", encoding=546)
    report = report_of(manager, cause, original, rfh2 + mde + BODY)
    assert report.body == rfh2 + mde + BODY[:100]


@CAUSES
def test_R_msg_id_is_new_and_correl_id_the_original_msg_id(
    manager: QueueManager, cause: Cause
) -> None:
    report = report_of(manager, cause, asking(cause))
    assert report.msg_id not in (MSG_ID, CORREL_ID, ZERO_ID)
    assert report.correl_id == MSG_ID


@CAUSES
@pytest.mark.parametrize("passes_msg_id", [False, True])
@pytest.mark.parametrize("passes_correl_id", [False, True])
def test_R_pass_msg_id_and_pass_correl_id(
    manager: QueueManager, cause: Cause, passes_msg_id: bool, passes_correl_id: bool
) -> None:
    more = c.MQRO_PASS_MSG_ID * passes_msg_id | c.MQRO_PASS_CORREL_ID * passes_correl_id
    report = report_of(manager, cause, asking(cause, more))
    assert (report.msg_id == MSG_ID) == passes_msg_id
    assert report.correl_id == (CORREL_ID if passes_correl_id else MSG_ID)


@CAUSES
@pytest.mark.parametrize("discards", [False, True])
def test_R_pass_discard_and_expiry(manager: QueueManager, cause: Cause, discards: bool) -> None:
    """What was left of the original, 60 s where nothing was; MQRO_DISCARD_MSG passes along."""
    more = c.MQRO_PASS_DISCARD_AND_EXPIRY | c.MQRO_DISCARD_MSG * discards
    report = report_of(manager, cause, asking(cause, more))
    expected = {Cause.EXPIRATION: 600, Cause.EXCEPTION: 10, Cause.COA: 20, Cause.COD: 15}
    assert report.remaining_tenths == expected[cause]
    assert report.descriptor.report == c.MQRO_DISCARD_MSG * discards


@CAUSES
def test_R_discard_alone_passes_nothing_on(manager: QueueManager, cause: Cause) -> None:
    report = report_of(manager, cause, asking(cause, c.MQRO_DISCARD_MSG))
    assert report.descriptor.report == c.MQRO_NONE
    assert report.remaining_tenths == c.MQEI_UNLIMITED


@CAUSES
def test_R_version_1_original_has_no_original_length(manager: QueueManager, cause: Cause) -> None:
    plain = Descriptor(report=cause.value, reply_to_q=REPLIES)
    report = report_of(manager, cause, plain)
    assert report.descriptor.version == 1
    assert report.descriptor.original_length == c.MQOL_UNDEFINED


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


def test_R_pan_and_nan_are_left_to_the_application(manager: QueueManager, session: Session) -> None:
    session.put("Q1", b"x", report=c.MQRO_PAN | c.MQRO_NAN, reply_to_q=REPLIES)
    message = session.get("Q1")
    assert message is not None
    assert message.descriptor.report == c.MQRO_PAN | c.MQRO_NAN
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
    manager: QueueManager, cause: Cause, attributes: dict[str, int] | None, reason: int
) -> None:
    """With the failure as Reason; the original goes its way all the same."""
    original = asking(cause, cause.value * (DATA | FULL) | c.MQRO_DISCARD_MSG)
    if attributes is None:
        original = original._replace(reply_to_q="NOWHERE")
    else:
        alter(manager, REPLIES, **attributes)
    cause_report(manager, cause, original)
    with manager.session() as session:
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
