"""RFH2: the rules and formatting header 2 as pymqi packs and reads it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from mayfly import pymqi
from mayfly.mqi.properties import pack_folder, pack_header
from mayfly.pymqi import CMQC

Fails = Callable[..., pymqi.MQMIError]

FOLDER = b"<usr><colour>red</colour></usr>"
SIZES = b"<sizes><size>1</size></sizes>"
BIG = [1, 16, 17, 256, 257, 272, 273, CMQC.MQENC_FLOAT_S390]
LITTLE = [None, CMQC.MQENC_NATIVE, 2, 32, 512, 34, 514, 544]


def two_folders(**fields: object) -> pymqi.RFH2:
    """Return a header with two folders."""
    header = pymqi.RFH2(CodedCharSetId=1208, NameValueCCSID=1208, **fields)
    header.add_folder(FOLDER)
    header.add_folder(SIZES)
    return header


def test_a_new_header_is_what_pymqi_begins_with() -> None:
    assert pymqi.RFH2().get() == {
        "StrucId": b"RFH ",
        "Version": 2,
        "StrucLength": 0,
        "Encoding": 546,
        "CodedCharSetId": 0,
        "Format": b"",
        "Flags": 0,
        "NameValueCCSID": 0,
    }
    assert pymqi.RFH2().get_length() == len(pymqi.RFH2().pack()) == 36


def test_folders_are_fields_with_their_lengths() -> None:
    header = two_folders()
    assert (header["usr"], header["usrLength"]) == (FOLDER + b" ", 32)
    assert (header.sizes, header.sizesLength) == (SIZES + b" " * 3, 32)
    assert header.StrucLength == header.get_length() == 36 + 36 + 36
    assert len(header.get()) == 12


@pytest.mark.parametrize("encoding", BIG)
def test_numbers_have_their_high_byte_first_where_the_encoding_says_so(encoding: int) -> None:
    packed = two_folders().pack(encoding)
    assert packed[4:8] == b"\0\0\0\2"
    assert packed[8:12] == (108).to_bytes(4, "big")
    assert packed[36:40] == (32).to_bytes(4, "big")


@pytest.mark.parametrize("encoding", LITTLE)
def test_numbers_have_their_low_byte_first_otherwise(encoding: int | None) -> None:
    packed = two_folders().pack(encoding)
    assert packed[4:8] == b"\2\0\0\0"
    assert packed[36:40] == (32).to_bytes(4, "little")


@pytest.mark.parametrize("encoding", [273, 546])
def test_what_was_read_is_packed_byte_for_byte(encoding: int) -> None:
    packed = two_folders(Encoding=273, Format=CMQC.MQFMT_STRING, Flags=3).pack(encoding)
    for given in (encoding, None):
        header = pymqi.RFH2()
        header.unpack(packed + b"data", given)
        assert header.pack() == packed
        assert (header["Format"], header["Flags"], header["usr"]) == (b"MQSTR   ", 3, FOLDER + b" ")


def test_another_header_replaces_all_of_the_first() -> None:
    header = two_folders()
    header.unpack(pack_header(pack_folder("<mcd><Msd>xmlnsc</Msd></mcd>"), "MQSTR"))
    assert len(header.get()) == 10
    assert header["mcd"] == b"<mcd><Msd>xmlnsc</Msd></mcd>"
    with pytest.raises(AttributeError, match="usr"):
        _ = header["usr"]


def test_the_fixed_part_alone_is_read() -> None:
    header = pymqi.RFH2()
    header.unpack(two_folders().pack()[:36])
    assert (len(header.get()), header["StrucLength"]) == (8, 108)


DAMAGED = [
    (b"XYZ " + bytes(40), None, "StrucId not MQRFH_STRUC_ID. Value: b'XYZ '"),
    (two_folders().pack()[:32], None, "Buffer too short. Should be 36+ bytes instead of 32"),
    (two_folders().pack()[:100], None, "Buffer too short. Expected: 108 Buffer Length: 100"),
    (two_folders().pack(273), 546, "Buffer too short. Expected: 1811939328 Buffer Length: 108"),
    (two_folders(StrucLength=0).pack(273).replace(b"</usr>", b"</usx>"), 273, "not well formed"),
    (two_folders().pack()[:8] + b"\xff" * 4 + two_folders().pack()[12:], 546, "is negative"),
    (two_folders().pack()[:36] + b"\0\0\1\0" + two_folders().pack()[40:], 546, "folder length"),
    (two_folders().pack()[:36] + b"\xff" * 4 + two_folders().pack()[40:], 546, "folder length"),
    (two_folders().pack().replace(b"\x6c", b"\x4a", 1), 546, "are left behind"),
]


@pytest.mark.parametrize(("data", "encoding", "why"), DAMAGED)
def test_a_damaged_header_says_what_is_wrong_and_changes_nothing(
    data: bytes, encoding: int | None, why: str
) -> None:
    header = two_folders()
    before = header.get()
    with pytest.raises(pymqi.PYIFError) as caught:
        header.unpack(data, encoding)
    assert why in str(caught.value)
    assert str(caught.value).startswith("PYMQI Error: RFH2 - ")
    assert header.get() == before


@pytest.mark.parametrize("folder", [b"<a><b>c</a>", b"", b"text", b"<a></a><b></b>", b"\xff"])
def test_a_folder_that_is_not_well_formed_is_refused(folder: bytes) -> None:
    header = two_folders()
    with pytest.raises(pymqi.PYIFError, match=r"XML Folder not well formed\. Exception:"):
        header.add_folder(folder)
    assert header.get() == two_folders().get()


def test_text_is_refused() -> None:
    with pytest.raises(TypeError, match="str"):
        pymqi.RFH2().add_folder("<a></a>")  # type: ignore[arg-type]  # what it is about
    with pytest.raises(TypeError, match="str"):
        pymqi.RFH2().unpack("RFH ")  # type: ignore[arg-type]  # what it is about


def test_fields_are_checked() -> None:
    header = two_folders()
    header.set(Flags=1, usr=b"<usr></usr> ")
    assert (header.Flags, header["usr"]) == (1, b"<usr></usr> ")
    for name, value, error in (
        ("usr", "text", TypeError),
        ("usrLength", b"1", TypeError),
        ("Version", "2", TypeError),
        ("mcd", b"<mcd></mcd>", AttributeError),
    ):
        with pytest.raises(error, match=name):
            header[name] = value
    with pytest.raises(AttributeError):
        _ = header["mcd"]


def test_headers_are_put_and_got_in_a_list(queue: pymqi.Queue) -> None:
    first = two_folders(Format=CMQC.MQFMT_RF_HEADER_2, Encoding=546)
    second = pymqi.RFH2(Format=CMQC.MQFMT_STRING, CodedCharSetId=1208, NameValueCCSID=1208)
    second.add_folder(b"<psc><Command>RegSub</Command></psc>")
    md = pymqi.MD(Format=CMQC.MQFMT_RF_HEADER_2, Encoding=273)
    queue.put_rfh2(b"hello", md, pymqi.PMO(), [first, second])
    found, got = list[pymqi.RFH2](), pymqi.MD()
    assert queue.get_rfh2(None, got, pymqi.GMO(), found) == b"hello"
    assert [header.pack() for header in found] == [first.pack(), second.pack()]
    assert (first.pack()[4:8], second.pack()[4:8]) == (b"\0\0\0\2", b"\2\0\0\0")


def test_without_a_list_they_are_put_and_get(queue: pymqi.Queue, fails: Fails) -> None:
    queue.put_rfh2(b"one")
    queue.put_rfh2("two", pymqi.MD(), None, [])
    queue.put_rfh2(b"three", None, None, None)
    queue.put_rfh2(b"four")
    assert queue.get_rfh2() == b"one"
    found = list[pymqi.RFH2]()
    assert queue.get_rfh2(None, pymqi.MD(), None, found) == b"two"
    assert queue.get_rfh2(100, pymqi.MD(), pymqi.GMO()) == b"three"
    assert queue.get_rfh2(None, None, None, found) == b"four"
    assert found == []
    assert fails(queue.get_rfh2, None, pymqi.MD(), None, found).reason == 2033


@pytest.mark.parametrize("headers", [(), "text", [b"RFH "]])
def test_the_third_option_is_a_list_of_headers(queue: pymqi.Queue, headers: object) -> None:
    with pytest.raises(TypeError):
        queue.put_rfh2(b"y", pymqi.MD(), pymqi.PMO(), headers)
    queue.put(b"x")
    with pytest.raises(TypeError):
        queue.get_rfh2(None, pymqi.MD(), pymqi.GMO(), headers)
    assert queue.get() == b"x"


def test_a_damaged_header_that_was_got_leaves_the_list_as_it_was(queue: pymqi.Queue) -> None:
    body = two_folders(Format=CMQC.MQFMT_RF_HEADER_2, Encoding=273).pack(273) + b"no header"
    queue.put(body, pymqi.MD(Format=CMQC.MQFMT_RF_HEADER_2, Encoding=273))
    found = list[pymqi.RFH2]()
    with pytest.raises(pymqi.PYIFError, match="StrucId"):
        queue.get_rfh2(None, pymqi.MD(), pymqi.GMO(), found)
    assert found == []


def test_a_header_that_says_no_length_is_as_long_as_its_fixed_part(queue: pymqi.Queue) -> None:
    md = pymqi.MD(Format=CMQC.MQFMT_RF_HEADER_2)
    queue.put(pymqi.RFH2(Format=CMQC.MQFMT_STRING).pack() + b"hello", md)
    found = list[pymqi.RFH2]()
    assert queue.get_rfh2(None, pymqi.MD(), pymqi.GMO(), found) == b"hello"
    assert found[0]["StrucLength"] == 0
