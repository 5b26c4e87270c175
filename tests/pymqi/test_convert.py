"""MQGMO_CONVERT (G7): text and headers in the character set and encoding of the getter's MD."""

from __future__ import annotations

import struct

import pytest

from mayfly import QueueManager, pymqi
from mayfly.mqi import command_constants as k
from mayfly.mqi.code_pages import CODECS, codec_name
from mayfly.mqi.pcf import (
    Header,
    PcfMessage,
    Structure,
    byte_string,
    integer,
    pack,
    string,
    string_list,
    unpack,
)
from mayfly.mqi.structures import TM
from mayfly.pymqi import CMQC

CONVERT, ACCEPT = CMQC.MQGMO_CONVERT, CMQC.MQGMO_ACCEPT_TRUNCATED_MSG
STRING, NONE = CMQC.MQFMT_STRING, CMQC.MQFMT_NONE
LITTLE, BIG, ZOS = CMQC.MQENC_NATIVE, CMQC.MQENC_NORMAL, CMQC.MQENC_S390
WARNED = CMQC.MQCC_WARNING


def put(
    queue: pymqi.Queue, body: bytes, ccsid: int, encoding: int = LITTLE, **more: object
) -> None:
    fields = {"Format": STRING, "CodedCharSetId": ccsid, "Encoding": encoding, **more}
    queue.put(body, pymqi.MD(**fields))


def get(
    queue: pymqi.Queue,
    ccsid: int,
    encoding: int = LITTLE,
    length: int | None = None,
    options: int = CONVERT,
) -> tuple[bytes, tuple[int, int]]:
    """Return the data, and CodedCharSetId and Encoding that describe them."""
    md = pymqi.MD(CodedCharSetId=ccsid, Encoding=encoding)
    body = queue.get(length, md, pymqi.GMO(Options=options))
    return body, (md.CodedCharSetId, md.Encoding)


def warned(
    queue: pymqi.Queue, ccsid: int, *rest: int | None, options: int = CONVERT
) -> tuple[int, bytes, int, tuple[int, int]]:
    """Return the reason of a warning, the data, their length, and what describes them."""
    encoding, length = [*rest, LITTLE, None][:2] if rest else (LITTLE, None)
    md = pymqi.MD(CodedCharSetId=ccsid, Encoding=encoding)
    with pytest.raises(pymqi.MQMIError) as caught:
        queue.get(length, md, pymqi.GMO(Options=options))
    error = caught.value
    assert error.comp == WARNED
    described = md.CodedCharSetId, md.Encoding
    return error.reason, error.message, error.original_length, described


@pytest.mark.parametrize(
    ("ccsid", "raw"),
    [
        (819, b"Gr\xfc\xdfe"),
        (1252, b"Gr\xfc\xdfe"),
        (850, b"Gr\x81\xe1e"),
        (437, b"Gr\x81\xe1e"),
        (37, b"\xc7\x99\xdc\x59\x85"),
        (500, b"\xc7\x99\xdc\x59\x85"),
        (1140, b"\xc7\x99\xdc\x59\x85"),
        (1047, b"\xc7\x99\xdc\x59\x85"),
        (273, b"\xc7\x99\xd0\xa1\x85"),
        (1200, b"G\0r\0\xfc\0\xdf\0e\0"),
        (13488, b"G\0r\0\xfc\0\xdf\0e\0"),
        (1202, b"G\0r\0\xfc\0\xdf\0e\0"),
        (1209, b"Gr\xc3\xbc\xc3\x9fe"),
    ],
)
def test_G07_text_there_and_back(queue: pymqi.Queue, ccsid: int, raw: bytes) -> None:
    put(queue, "Grüße".encode(), 1208)
    assert get(queue, ccsid) == (raw, (ccsid, LITTLE))
    put(queue, raw, ccsid)
    assert get(queue, 1208) == ("Grüße".encode(), (1208, LITTLE))


def test_G07_2111_2115_a_character_set_that_is_not_known(queue: pymqi.Queue) -> None:
    """Such as 1389, which IBM has not given to any; the message comes as it was put."""
    put(queue, b"\xc1", 1389)
    assert warned(queue, 1208) == (CMQC.MQRC_SOURCE_CCSID_ERROR, b"\xc1", 1, (1389, LITTLE))
    put(queue, b"A", 1208)
    assert warned(queue, 1389) == (CMQC.MQRC_TARGET_CCSID_ERROR, b"A", 1, (1208, LITTLE))


def test_G07_utf_16_has_the_byte_order_of_the_encoding(queue: pymqi.Queue) -> None:
    put(queue, "ß€".encode("utf-16-be"), 1200, BIG)
    assert get(queue, 1200, LITTLE) == ("ß€".encode("utf-16-le"), (1200, LITTLE))
    put(queue, "ß€".encode("utf-16-le"), 1200, LITTLE)
    assert get(queue, 13488, ZOS) == ("ß€".encode("utf-16-be"), (13488, ZOS))


def test_G07_brackets_differ_between_the_code_pages_of_z_os(queue: pymqi.Queue) -> None:
    put(queue, b"[]^", 1208)
    assert get(queue, 1047)[0] == b"\xad\xbd\x5f"
    put(queue, b"[]^", 1208)
    assert get(queue, 37)[0] == b"\xba\xbb\xb0"


@pytest.mark.parametrize("ccsid", sorted(CODECS))
def test_G07_each_code_page_has_letters_and_digits(ccsid: int) -> None:
    codec = codec_name(ccsid, LITTLE)
    assert codec is not None
    assert "Az 09".encode(codec).decode(codec) == "Az 09"


def test_G07_all_256_characters_of_code_page_1047(queue: pymqi.Queue) -> None:
    every = bytes(range(256))
    put(queue, every, 1047)
    assert sorted(get(queue, 819)[0]) == sorted(every)


@pytest.mark.parametrize("browse", [False, True])
def test_G07_a_browse_converts_too_and_changes_nothing(
    queue_manager: QueueManager, queue: pymqi.Queue, browse: bool
) -> None:
    put(queue, b"\xc1", 37)
    options = CONVERT | (CMQC.MQGMO_BROWSE_FIRST if browse else 0)
    assert get(queue, 1208, options=options)[0] == b"A"
    assert queue_manager.curdepth("Q1") == browse
    if browse:
        assert queue.get() == b"\xc1"


def test_G07_without_the_option_nothing_is_converted(queue: pymqi.Queue) -> None:
    put(queue, b"\xc1", 37)
    assert get(queue, 1208, options=0) == (b"\xc1", (37, LITTLE))


@pytest.mark.parametrize("wanted", [0, 1208])
def test_G07_zero_is_the_character_set_of_the_queue_manager(
    queue: pymqi.Queue, wanted: int
) -> None:
    put(queue, b"\xc1", 37)
    assert get(queue, wanted) == (b"A", (1208, LITTLE))
    put(queue, "ü".encode(), 0)
    assert get(queue, wanted) == ("ü".encode(), (1208, LITTLE))


def test_G07_text_has_no_numbers_so_the_encoding_is_only_said(queue: pymqi.Queue) -> None:
    put(queue, b"x", 819, ZOS)
    assert get(queue, 819, LITTLE) == (b"x", (819, LITTLE))


def test_G07_data_without_a_format_are_never_converted(queue: pymqi.Queue) -> None:
    put(queue, b"\xc1", 37, ZOS, Format=NONE)
    assert get(queue, 1208) == (b"\xc1", (37, ZOS))


def test_G07_a_pcf_message_is_converted_with_its_texts_and_groups(queue: pymqi.Queue) -> None:
    message = PcfMessage(
        Header(k.MQCFT_COMMAND, k.MQCMD_INQUIRE_Q, parameter_count=5),
        (
            string(CMQC.MQCA_Q_NAME, "A.1", 8),
            integer(CMQC.MQIA_Q_TYPE, 1),
            Structure(k.MQCFT_GROUP, 8001, (string_list(3011, ["A", "Ü"]),)),
            Structure(k.MQCFT_STRING_FILTER, 2013, "Ä*".encode("latin-1"), 18, 819),
            byte_string(7006, b"\1\2"),
        ),
    )
    sent = pack(*message)
    put(queue, sent, 1208, Format=CMQC.MQFMT_ADMIN)
    body, described = get(queue, 500, BIG)
    assert described == (500, BIG)
    name, _number, group, condition, raw = unpack(body, big_endian=True).structures
    assert name.value == "A.1     ".encode("cp500")
    assert group.value == (
        Structure(k.MQCFT_STRING_LIST, 3011, ("A ".encode("cp500"), "Ü ".encode("cp500"))),
    )
    assert (condition.value, condition.operator, condition.ccsid) == ("Ä*".encode("cp500"), 18, 500)
    assert raw == byte_string(7006, b"\1\2")
    put(queue, body, 500, BIG, Format=CMQC.MQFMT_PCF)
    back, described = get(queue, 1208)
    assert described == (1208, LITTLE)
    assert unpack(back).header == message.header
    assert unpack(back).structures[0] == message.structures[0]
    assert unpack(back).structures[3].text() == "Ä*"


def test_G07_no_data_need_no_conversion(queue: pymqi.Queue) -> None:
    put(queue, b"", 37, Format=b"OWN")
    assert get(queue, 1208) == (b"", (37, LITTLE))


@pytest.mark.parametrize(
    ("body", "ccsid", "wanted", "format_name", "reason"),
    [
        (b"x", 37, 1208, b"OWN", CMQC.MQRC_FORMAT_ERROR),
        (b"x", 37, 1208, CMQC.MQFMT_PCF, CMQC.MQRC_FORMAT_ERROR),
        (b"x", 4711, 1208, STRING, CMQC.MQRC_SOURCE_CCSID_ERROR),
        (b"x", -1, 1208, STRING, CMQC.MQRC_SOURCE_CCSID_ERROR),
        (b"x", 1208, 4711, STRING, CMQC.MQRC_TARGET_CCSID_ERROR),
        (b"\xff", 1208, 819, STRING, CMQC.MQRC_NOT_CONVERTED),
        ("€".encode(), 1208, 819, STRING, CMQC.MQRC_NOT_CONVERTED),
        (b"odd", 1200, 1208, STRING, CMQC.MQRC_NOT_CONVERTED),
        (b"short", 1208, 37, CMQC.MQFMT_DEAD_LETTER_HEADER, CMQC.MQRC_NOT_CONVERTED),
    ],
)
def test_G07_what_cannot_be_converted_is_returned_as_it_is_with_a_warning_and_gone(
    queue_manager: QueueManager,
    queue: pymqi.Queue,
    body: bytes,
    ccsid: int,
    wanted: int,
    format_name: bytes,
    reason: int,
) -> None:
    put(queue, body, ccsid, ZOS, Format=format_name)
    found = warned(queue, wanted)
    assert found == (reason, body, len(body), (ccsid, ZOS))
    assert queue_manager.curdepth("Q1") == 0


def test_G07_grown_beyond_the_buffer_it_is_returned_unconverted_and_gone(
    queue_manager: QueueManager, queue: pymqi.Queue
) -> None:
    put(queue, b"\xfc\xfc", 819)
    found = warned(queue, 1208, LITTLE, 3)
    assert found == (CMQC.MQRC_CONVERTED_MSG_TOO_BIG, b"\xfc\xfc", 2, (819, LITTLE))
    assert queue_manager.curdepth("Q1") == 0
    put(queue, b"\xfc\xfc", 819)
    assert get(queue, 1208, LITTLE, 4)[0] == "üü".encode()


def test_G07_grown_beyond_the_buffer_it_is_cut_when_that_is_accepted(queue: pymqi.Queue) -> None:
    """Whole characters only; the length is that of the message before."""
    put(queue, b"\xfc\xfc", 819)
    found = warned(queue, 1208, LITTLE, 3, options=CONVERT | ACCEPT)
    assert found == (CMQC.MQRC_TRUNCATED_MSG_ACCEPTED, "ü".encode(), 2, (1208, LITTLE))


def test_G07_too_long_before_it_stays_unconverted(
    queue_manager: QueueManager, queue: pymqi.Queue
) -> None:
    put(queue, b"\xc1\xc2", 37)
    found = warned(queue, 1208, LITTLE, 1)
    assert found == (CMQC.MQRC_TRUNCATED_MSG_FAILED, b"\xc1", 2, (37, LITTLE))
    assert queue_manager.curdepth("Q1") == 1


def test_G07_cut_before_its_whole_characters_are_converted(queue: pymqi.Queue) -> None:
    put(queue, "aüü".encode(), 1208)
    found = warned(queue, 819, LITTLE, 4, options=CONVERT | ACCEPT)
    assert found == (CMQC.MQRC_TRUNCATED_MSG_ACCEPTED, b"a\xfc", 5, (819, LITTLE))
    put(queue, b"a\xff\xff\xff\xff", 1208)
    found = warned(queue, 819, LITTLE, 4, options=CONVERT | ACCEPT)
    assert found[0] == CMQC.MQRC_NOT_CONVERTED


def test_G07_a_buffer_of_no_length_needs_no_conversion(queue: pymqi.Queue) -> None:
    put(queue, b"\xc1", 37)
    found = warned(queue, 1208, LITTLE, 0, options=CONVERT | ACCEPT)
    assert found == (CMQC.MQRC_TRUNCATED_MSG_ACCEPTED, b"", 1, (37, LITTLE))


def test_G07_the_returned_length_is_that_of_the_converted_data(queue: pymqi.Queue) -> None:
    put(queue, b"\xfc", 819)
    gmo = pymqi.GMO(Version=CMQC.MQGMO_VERSION_4, Options=CONVERT)
    assert queue.get(10, pymqi.MD(CodedCharSetId=1208), gmo) == "ü".encode()
    assert gmo.ReturnedLength == 2


def dead_letter(**more: object) -> pymqi.DLH:
    fields = {
        "DestQName": b"Q9",
        "Reason": 2053,
        "Format": STRING,
        "PutApplName": b"amqsput",
        **more,
    }
    return pymqi.DLH(Encoding=LITTLE, CodedCharSetId=1208, **fields)


def test_G07_a_header_before_text_is_converted_with_it(queue: pymqi.Queue) -> None:
    """From little-endian UTF-8 to the coding of z/OS and back: the same bytes."""
    sent = dead_letter().pack() + "Grüße".encode()
    put(queue, sent, 1208, Format=CMQC.MQFMT_DEAD_LETTER_HEADER)
    body, described = get(queue, 500, ZOS)
    assert described == (500, ZOS)
    assert body[:8] == "DLH ".encode("cp500") + b"\0\0\0\x01"
    assert body[12:60].decode("cp500").rstrip() == "Q9"
    assert struct.unpack(">2i", body[108:116]) == (ZOS, 500)
    assert body[172:] == "Grüße".encode("cp500")
    put(queue, body, 500, ZOS, Format=CMQC.MQFMT_DEAD_LETTER_HEADER)
    back = get(queue, 1208, LITTLE)[0]
    assert back[:8] == sent[:8]
    header = pymqi.DLH().get_header(back)
    assert (header.DestQName.rstrip(), header.Reason, header.Format) == (b"Q9", 2053, STRING)
    assert back[172:] == sent[172:]


def test_G07_what_stands_behind_a_header_and_is_not_converted_is_described_as_it_is(
    queue: pymqi.Queue,
) -> None:
    sent = dead_letter(Format=b"OWN").pack() + b"\x01\x02"
    put(queue, sent, 1208, Format=CMQC.MQFMT_DEAD_LETTER_HEADER)
    reason, body, length, described = warned(queue, 1208, BIG)
    assert (reason, length, described) == (CMQC.MQRC_FORMAT_ERROR, len(sent), (1208, BIG))
    header = pymqi.DLH()
    header.unpack(body, BIG)
    assert (header.Encoding, header.CodedCharSetId, header.Reason) == (LITTLE, 1208, 2053)
    assert body[172:] == b"\x01\x02"


def test_G07_a_text_that_does_not_fit_its_field_any_more(queue: pymqi.Queue) -> None:
    sent = dead_letter().pack() + b"x"
    put(queue, sent, 1208, Format=CMQC.MQFMT_DEAD_LETTER_HEADER)
    found = warned(queue, 1200)
    assert found == (CMQC.MQRC_CONVERTED_STRING_TOO_BIG, sent, len(sent), (1208, LITTLE))


def rfh2(folder: bytes, ccsid: int, **more: int) -> bytes:
    padded = folder.ljust(-(-len(folder) // 4) * 4)
    # StrucLength, Encoding, CodedCharSetId, Format, Flags, NameValueCCSID.
    fixed = struct.pack(
        "<4siiii8sii",
        b"RFH ",
        2,
        40 + len(padded),
        LITTLE,
        more.get("behind", CMQC.MQCCSI_INHERIT),
        STRING,
        0,
        ccsid,
    )
    return fixed + struct.pack("<i", len(padded)) + padded


@pytest.mark.parametrize("behind", [CMQC.MQCCSI_INHERIT, 1208])
def test_G07_the_folders_of_an_rfh2_stay_and_its_numbers_turn(
    queue: pymqi.Queue, behind: int
) -> None:
    folder = b"<usr><n>1</n></usr>"
    sent = rfh2(folder, 1208, behind=behind) + "ü".encode()
    put(queue, sent, 1208, Format=CMQC.MQFMT_RF_HEADER_2)
    body, described = get(queue, 819, BIG, options=CONVERT | CMQC.MQGMO_PROPERTIES_FORCE_MQRFH2)
    assert described == (819, BIG)
    assert struct.unpack(">i", body[16:20]) == (behind if behind < 0 else 819,)
    header = pymqi.RFH2()
    header.unpack(body, BIG)
    assert (header["usr"].rstrip(), header.StrucLength, header.Encoding) == (folder, 60, BIG)
    assert body[60:] == b"\xfc"


def test_G07_folders_in_utf_16_turn_with_the_numbers(queue: pymqi.Queue) -> None:
    folder = "<usr></usr>x".encode("utf-16-le")
    put(queue, rfh2(folder, 1200) + b"x", 1208, Format=CMQC.MQFMT_RF_HEADER_2)
    options = CONVERT | CMQC.MQGMO_PROPERTIES_FORCE_MQRFH2
    body = get(queue, 1208, BIG, options=options)[0]
    assert body[40:64].decode("utf-16-be") == "<usr></usr>x"


@pytest.mark.parametrize("folder_length", [-1, 2**20, 3])
def test_G07_a_damaged_folder_is_not_converted(queue: pymqi.Queue, folder_length: int) -> None:
    sent = bytearray(rfh2("<usr></usr>x".encode("utf-16-le"), 1200))
    sent[36:40] = struct.pack("<i", folder_length)
    put(queue, bytes(sent), 1208, Format=CMQC.MQFMT_RF_HEADER_2)
    options = CONVERT | CMQC.MQGMO_PROPERTIES_FORCE_MQRFH2
    found = warned(queue, 1208, BIG, options=options)
    assert found == (CMQC.MQRC_NOT_CONVERTED, bytes(sent), len(sent), (1208, LITTLE))


def test_G07_headers_in_a_row(queue: pymqi.Queue) -> None:
    """A descriptor extension says what the dead-letter header is coded in, and so on."""
    extension = pymqi.MDE(
        Format=CMQC.MQFMT_DEAD_LETTER_HEADER,
        Encoding=LITTLE,
        CodedCharSetId=1208,
        GroupId=b"group",
        MsgSeqNumber=7,
    )
    sent = extension.pack(BIG) + dead_letter().pack(LITTLE) + b"text"
    md = pymqi.MD(Format=CMQC.MQFMT_MD_EXTENSION, CodedCharSetId=819, Encoding=BIG)
    queue.put(sent, md)
    body, described = get(queue, 37, ZOS)
    assert described == (37, ZOS)
    assert body[:4] == "MDE ".encode("cp037")
    assert body[32:37] == b"group"
    assert struct.unpack(">i", body[56:60]) == (7,)
    assert struct.unpack(">2i", body[12:20]) == (ZOS, 37)
    assert body[72:76] == "DLH ".encode("cp037")
    assert body[72 + 172 :].decode("cp037") == "text"


def test_G07_no_row_of_headers_is_too_long(queue: pymqi.Queue) -> None:
    """What is removed from its queue comes back, whatever its data say of themselves."""
    header, last = dead_letter(Format=CMQC.MQFMT_DEAD_LETTER_HEADER), dead_letter()
    sent = header.pack(LITTLE) * 2_000 + last.pack(LITTLE) + b"text"
    put(queue, sent, 1208, Format=CMQC.MQFMT_DEAD_LETTER_HEADER)
    body, described = get(queue, 37, ZOS)
    assert described == (37, ZOS)
    assert len(body) == len(sent)
    assert body[-4:].decode("cp037") == "text"
    assert body[-176:-172] == body[:4] == "DLH ".encode("cp037")


def test_G07_behind_a_header_that_cannot_be_converted_nothing_is(queue: pymqi.Queue) -> None:
    """The one before it is, and describes it as it was put."""
    outer = dead_letter(Format=CMQC.MQFMT_DEAD_LETTER_HEADER)
    inner = dead_letter(DestQName="\u0416".encode())
    behind = inner.pack(LITTLE) + b"text"
    put(queue, outer.pack(LITTLE) + behind, 1208, Format=CMQC.MQFMT_DEAD_LETTER_HEADER)
    reason, body, length, described = warned(queue, 37, ZOS)
    assert (reason, described) == (CMQC.MQRC_NOT_CONVERTED, (37, ZOS))
    assert length == len(body)
    assert body[:4] == "DLH ".encode("cp037")
    assert body[172:] == behind
    assert struct.unpack(">2i", body[108:116]) == (LITTLE, 1208)


def test_G07_a_trigger_message_is_converted(queue: pymqi.Queue) -> None:
    message = TM.pack({"QName": "Q1", "ApplType": CMQC.MQAT_UNIX, "ApplId": "run"})
    put(queue, message, 1208, Format=CMQC.MQFMT_TRIGGER)
    body, described = get(queue, 37, BIG)
    assert (len(body), described) == (684, (37, BIG))
    assert body[8:56].decode("cp037").rstrip() == "Q1"
    assert struct.unpack(">i", body[168:172]) == (CMQC.MQAT_UNIX,)


@pytest.mark.parametrize("cut", [10, 170])
def test_G07_a_header_that_was_cut_is_not_converted(queue: pymqi.Queue, cut: int) -> None:
    sent = dead_letter().pack() + b"text"
    put(queue, sent, 1208, Format=CMQC.MQFMT_DEAD_LETTER_HEADER)
    found = warned(queue, 37, LITTLE, cut, options=CONVERT | ACCEPT)
    assert found == (CMQC.MQRC_NOT_CONVERTED, sent[:cut], len(sent), (1208, LITTLE))
