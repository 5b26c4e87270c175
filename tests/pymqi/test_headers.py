"""The header classes: DLH, XQH, MDE and IIH, which lifetimes need, and trigger messages."""

from __future__ import annotations

import pytest

from mayfly import QueueManager, pymqi
from mayfly.engine import PutRequest
from mayfly.mqi.descriptor import Descriptor
from mayfly.pymqi import CMQC
from mayfly.pymqi.headers import Header

HEADERS = [
    (pymqi.DLH, 172, b"DLH ", 1),
    (pymqi.XQH, 428, b"XQH ", 1),
    (pymqi.MDE, 72, b"MDE ", 2),
    (pymqi.IIH, 84, b"IIH ", 1),
    (pymqi.TM, 684, b"TM  ", 1),
]
BIG_ENDIAN = 0x111


@pytest.mark.parametrize(("header", "length", "struc_id", "version"), HEADERS)
def test_header_has_its_length_and_begins_with_its_initial_values(
    header: type[Header], length: int, struc_id: bytes, version: int
) -> None:
    made = header()
    assert (made.StrucId, made.Version) == (struc_id, version)
    assert len(made.pack()) == made.get_length() == length


@pytest.mark.parametrize("encoding", [CMQC.MQENC_NATIVE, BIG_ENDIAN])
@pytest.mark.parametrize(("header", "length", "struc_id", "version"), HEADERS)
def test_header_comes_back_from_the_start_of_a_message(
    header: type[Header], length: int, struc_id: bytes, version: int, encoding: int
) -> None:
    packed = header().pack(encoding)
    order = "big" if encoding == BIG_ENDIAN else "little"
    assert packed[:8] == struc_id + version.to_bytes(4, order)  # type: ignore[arg-type]  # a literal
    other = header()
    other.unpack(packed + b"data", encoding)
    assert other.pack(encoding) == packed


@pytest.mark.parametrize(("header", "length", "struc_id", "version"), HEADERS)
@pytest.mark.parametrize("damage", ["short", "StrucId", "Version"])
def test_what_is_no_such_header_is_refused_and_changes_nothing(
    header: type[Header], length: int, struc_id: bytes, version: int, damage: str
) -> None:
    packed = header().pack()
    damaged = {
        "short": packed[:-1],
        "StrucId": b"ABC " + packed[4:],
        "Version": packed[:4] + bytes(4) + packed[8:],
    }[damage]
    said = f"the buffer {length - 1}" if damage == "short" else f"{header.__name__} - {damage}"
    made = header()
    with pytest.raises(pymqi.PYIFError, match=said):
        made.unpack(damaged)
    assert made.get() == header().get()


def test_E30_flags_are_at_offset_28_of_an_IIH() -> None:
    packed = pymqi.IIH(Flags=CMQC.MQIIH_PASS_EXPIRATION, LTermOverride=b"T").pack()
    assert packed[28:32] == (1).to_bytes(4, "little")
    assert packed[32:40] == b"T".ljust(8, b"\0")
    assert (pymqi.IIH().CommitMode, pymqi.IIH().SecurityScope) == (b"0", b"C")


def test_E23_embedded_expiry_is_at_offset_120_of_an_XQH() -> None:
    xqh = pymqi.XQH(RemoteQName=b"Q", RemoteQMgrName=b"QM2", MsgDescExpiry=600)
    packed = xqh.pack()
    assert packed[120:124] == (600).to_bytes(4, "little")
    found = pymqi.XQH().get_header(packed + b"data")
    assert found.RemoteQMgrName == b"QM2".ljust(48, b"\0")
    md = found.get_embedded_md(packed + b"data")
    assert (md.Version, md.Expiry, md.MsgSeqNumber) == (1, 600, 1)


def test_header_takes_keywords_like_other_structures() -> None:
    dlh = pymqi.DLH(Reason=2085, DestQName="Q")
    dlh["DestQMgrName"] = b"QM1"
    assert dlh.get()["DestQName"] == b"Q"
    with pytest.raises(AttributeError, match="DLH has no field 'Expiry'"):
        pymqi.DLH(Expiry=1)


def test_P12_packed_header_is_one_to_the_queue_manager(
    connection: pymqi.QueueManager, queue: pymqi.Queue
) -> None:
    md = pymqi.MD(Format=CMQC.MQFMT_DEAD_LETTER_HEADER, Version=2)
    queue.put(pymqi.DLH(Reason=2053, Format=CMQC.MQFMT_STRING).pack() + b"data", md)
    body = queue.get()
    dlh = pymqi.DLH().get_header(body)
    assert (dlh.Reason, dlh.Format) == (2053, CMQC.MQFMT_STRING)
    assert body[dlh.get_length() :] == b"data"


@pytest.mark.parametrize("encoding", [CMQC.MQENC_NATIVE, BIG_ENDIAN])
def test_D2_the_header_of_a_delayed_message_is_read_from_the_staging_queue(
    connection: pymqi.QueueManager, queue_manager: QueueManager, encoding: int
) -> None:
    """Its numbers are little-endian in a message of either byte order."""
    with queue_manager.session() as session:
        handle = session.open("Q1", CMQC.MQOO_OUTPUT)
        descriptor = Descriptor(format="MQSTR", encoding=encoding, coded_char_set_id=1208)
        sent = handle.put(b"data", PutRequest(descriptor, delay_ms=5_000))
    staging = pymqi.Queue(connection, "SYSTEM.DDELAY.LOCAL.QUEUE", CMQC.MQOO_INPUT_SHARED)
    md = pymqi.MD(CorrelId=sent.msg_id)
    gmo = pymqi.GMO(Version=2, MatchOptions=CMQC.MQMO_MATCH_CORREL_ID)
    body = staging.get(None, md, gmo)
    assert md.Format == b"MQHDDLY "
    ddh = pymqi.DDH()
    ddh.unpack(body, md.Encoding)
    assert ddh.TargetQName.rstrip() == b"Q1"
    assert ddh.DueTime == queue_manager.now_ms() + 5_000
    assert (ddh.OriginalMsgId, ddh.Format, ddh.Encoding) == (sent.msg_id, b"MQSTR   ", encoding)
    assert body[ddh.get_length() :] == b"data"
    assert ddh.pack(BIG_ENDIAN) == ddh.pack() == body[:208]


def test_T8_the_character_form_of_a_trigger_message() -> None:
    packed = pymqi.TMC2(QName=b"Q1", ApplId=b"serve it", QMgrName=b"QM1").pack()
    assert len(packed) == pymqi.TMC2().get_length() == 732
    assert packed[:8] == b"TMC    2"
    assert (packed[8:11], packed[172:181], packed[684:688]) == (b"Q1\0", b"serve it\0", b"QM1\0")
    assert pymqi.TMC2().get_header(packed).ApplId.rstrip(b"\0") == b"serve it"
    with pytest.raises(pymqi.PYIFError, match="TMC2 - Version"):
        pymqi.TMC2().unpack(packed[:4] + b"   1" + packed[8:])
