"""The chain of MQ headers before the data of a message."""

from __future__ import annotations

from mayfly.mqi.constants import MQENC_NATIVE
from mayfly.mqi.properties import pack_folder, pack_header
from mayfly.mqi.structures import DDH, DLH, RFH2, XQH, read_headers

_BIG_ENDIAN = 0x111


def test_headers_are_read_one_after_the_other_each_by_the_one_before() -> None:
    letter = DLH.pack(
        {
            "Reason": 2051,
            "DestQName": "Q1",
            "Encoding": _BIG_ENDIAN,
            "CodedCharSetId": 819,
            "Format": "MQHRF2",
        },
    )
    rfh2 = RFH2.pack(
        {"StrucLength": 36, "Encoding": MQENC_NATIVE, "CodedCharSetId": 1208, "Format": "MQSTR"},
        big_endian=True,
    )
    chain = read_headers("MQDEAD", MQENC_NATIVE, 1208, letter + rfh2 + b"data")
    assert [(each.name, each.offset) for each in chain.headers] == [("MQDLH", 0), ("MQRFH2", 172)]
    assert chain.headers[0].fields["Reason"] == 2051
    assert (chain.format_name, chain.coded_char_set_id, chain.data_offset) == ("MQSTR", 1208, 208)
    assert chain.damage == ""


def test_after_a_transmission_header_the_embedded_descriptor_goes_on() -> None:
    transit = XQH.pack({"RemoteQName": "Q1", "MsgDesc.Format": "MQSTR", "MsgDesc.Encoding": 546})
    chain = read_headers("MQXMIT", MQENC_NATIVE, 1208, transit + b"data")
    assert [each.name for each in chain.headers] == ["MQXQH"]
    assert (chain.format_name, chain.encoding, chain.data_offset) == ("MQSTR", 546, 428)


def test_a_delay_header_is_little_endian_whatever_the_encoding_says() -> None:
    delayed = DDH.pack({"DueTime": 1_000, "TargetQName": "Q1", "Format": "MQSTR"})
    chain = read_headers("MQHDDLY", _BIG_ENDIAN, 1208, delayed + b"data")
    assert chain.headers[0].fields["DueTime"] == 1_000
    assert chain.data_offset == 208


def test_a_letter_of_another_character_set_is_read() -> None:
    letter = bytearray(DLH.pack({"Reason": 2051, "Format": "MQSTR", "Encoding": 546}))
    plain = DLH.pack({"Reason": 2051, "DestQName": "ORDERS", "Format": "MQSTR", "Encoding": 546})
    for begin, end in ((0, 4), (12, 108), (116, 124), (128, 156)):
        letter[begin:end] = plain[begin:end].decode("ascii").encode("cp500")
    chain = read_headers("MQDEAD", MQENC_NATIVE, 500, bytes(letter) + b"data")
    assert str(chain.headers[0].fields["DestQName"]).strip() == "ORDERS"
    assert chain.format_name == "MQSTR"


def test_a_damaged_header_ends_the_chain_and_is_named() -> None:
    folders = pack_folder("<usr><a>1</a></usr>")
    rfh2 = pack_header(folders, "MQSTR")
    cut = read_headers("MQHRF2", _BIG_ENDIAN, 1208, rfh2[:40])
    assert (cut.headers, cut.data_offset) == ([], 0)
    assert cut.damage.startswith("MQRFH2: StrucLength")
    wrong = read_headers("MQDEAD", MQENC_NATIVE, 1208, b"no letter")
    assert wrong.damage.startswith("MQDLH: ")
