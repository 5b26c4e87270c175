"""Report messages, rule R1 and every row of the field table of mq.md 4.3."""

import pytest

from mayfly import QueueManager
from mayfly.lifetime.reports import Cause
from mayfly.mqi import constants as c
from mayfly.mqi.descriptor import Descriptor
from mayfly.mqi.structures import MDE, RFH2
from tests.spec.report_scene import (
    BODY,
    CAUSES,
    CORREL_ID,
    DATA,
    FEEDBACK,
    FULL,
    MADE_MS,
    MSG_ID,
    asking,
    report_of,
)
from tests.spec.scene import (
    REPLIES,
    START_MS,
    ZERO_ID,
)


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
    # D9: what is delayed, to fail at its release, is in no group; and none of them is a segment.
    in_group = cause is not Cause.EXCEPTION
    assert descriptor.group_id == (b"G" * 24 if in_group else b"")
    assert (descriptor.msg_seq_number, descriptor.offset) == ((3, 0) if in_group else (1, 0))
    assert descriptor.msg_flags == (c.MQMF_MSG_IN_GROUP if in_group else c.MQMF_NONE)
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


@pytest.mark.parametrize("transacted", [False, True])
def test_R_a_COD_report_is_made_for_each_that_asks_for_one_among_others(
    manager: QueueManager, transacted: bool
) -> None:
    """One get after another compares its descriptor with the last that asks for none."""
    assert manager.mqsc("DEFINE QLOCAL(MIXED)\nDEFINE QLOCAL(TOLD)").ok
    with manager.session() as session, manager.session(transacted=transacted) as getter:
        asked = []
        for number in range(8):
            asks = number % 4 in (1, 2)
            report = c.MQRO_COD if asks else c.MQRO_NONE
            msg_id = session.put("MIXED", b"%d" % number, report=report, reply_to_q="TOLD")
            asked += [msg_id] if asks else []
        while getter.get("MIXED") is not None:
            pass
        if transacted:
            assert session.get("TOLD") is None
            getter.commit()
        told = []
        while (report_message := session.get("TOLD")) is not None:
            assert report_message.descriptor.feedback == c.MQFB_COD
            told.append(report_message.correl_id)
    assert told == asked
