"""PCF structures: byte for byte in both byte orders, and errors 3000s for all that is malformed."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mayfly.mqi import command_constants as k
from mayfly.mqi.pcf import (
    Header,
    PcfError,
    PcfMessage,
    PcfValue,
    Structure,
    byte_string,
    integer,
    integer_list,
    is_big_endian_message,
    pack,
    pack_structure,
    string,
    string_list,
    unpack,
)

NUMBERS = st.integers(-(2**31), 2**31 - 1)
NUMBERS_64 = st.integers(-(2**63), 2**63 - 1)
TEXTS = st.binary(max_size=40)
LISTS_OF_TEXTS = st.integers(0, 12).flatmap(
    lambda length: st.lists(st.binary(min_size=length, max_size=length), max_size=5)
)
ZERO = st.just(0)


def structures_of(
    kind: int,
    value: st.SearchStrategy[PcfValue],
    *,
    operator: st.SearchStrategy[int] = ZERO,
    ccsid: st.SearchStrategy[int] = ZERO,
) -> st.SearchStrategy[Structure]:
    """Return structures of a type with any parameter."""
    return st.builds(Structure, st.just(kind), NUMBERS, value, operator, ccsid)


FLAT = st.one_of(
    structures_of(k.MQCFT_INTEGER, NUMBERS),
    structures_of(k.MQCFT_INTEGER64, NUMBERS_64),
    structures_of(k.MQCFT_INTEGER_LIST, st.lists(NUMBERS, max_size=5).map(tuple)),
    structures_of(k.MQCFT_INTEGER64_LIST, st.lists(NUMBERS_64, max_size=5).map(tuple)),
    structures_of(k.MQCFT_STRING, TEXTS, ccsid=NUMBERS),
    structures_of(k.MQCFT_STRING_LIST, LISTS_OF_TEXTS.map(tuple), ccsid=NUMBERS),
    structures_of(k.MQCFT_BYTE_STRING, TEXTS),
    structures_of(k.MQCFT_INTEGER_FILTER, NUMBERS, operator=NUMBERS),
    structures_of(k.MQCFT_STRING_FILTER, TEXTS, operator=NUMBERS, ccsid=NUMBERS),
    structures_of(k.MQCFT_BYTE_STRING_FILTER, TEXTS, operator=NUMBERS),
)
STRUCTURES = st.recursive(
    FLAT,
    lambda members: structures_of(k.MQCFT_GROUP, st.lists(members, max_size=3).map(tuple)),
    max_leaves=8,
)
HEADERS = st.builds(
    Header, NUMBERS, NUMBERS, st.integers(1, 3), NUMBERS, NUMBERS, NUMBERS, NUMBERS, ZERO
)


def read(data: bytes) -> PcfMessage | PcfError:
    """Return the message in bytes, or the error; any other error ends the test."""
    try:
        return unpack(data)
    except PcfError as error:
        return error


@pytest.mark.parametrize(
    ("structure", "expected"),
    [
        (integer(20, 5), "00000003 00000010 00000014 00000005"),
        (integer(20, -1), "00000003 00000010 00000014 ffffffff"),
        (integer(20, 2**31), "00000017 00000018 00000014 00000000 0000000080000000"),
        (integer_list(1002, [1, 2]), "00000005 00000018 000003ea 00000002 00000001 00000002"),
        (integer_list(1002, []), "00000005 00000010 000003ea 00000000"),
        (
            Structure(k.MQCFT_INTEGER64_LIST, 9, (1,)),
            "00000019 00000018 00000009 00000001 0000000000000001",
        ),
        # Five bytes of text, three of padding.
        (string(2016, "QUEUE"), "00000004 0000001c 000007e0 00000000 00000005 5155455545000000"),
        (string(2016, "Q", 4), "00000004 00000018 000007e0 00000000 00000004 51202020"),
        (
            string_list(2020, ["A", "BB"]),
            "00000006 0000001c 000007e4 00000000 00000002 00000002 4120 4242",
        ),
        (byte_string(7006, b"\1\2\3"), "00000009 00000014 00001b5e 00000003 01020300"),
        (
            Structure(k.MQCFT_GROUP, 8001, (integer(20, 5),)),
            "00000014 00000010 00001f41 00000001 00000003 00000010 00000014 00000005",
        ),
        (
            Structure(k.MQCFT_INTEGER_FILTER, 3, 0, k.MQCFOP_GREATER),
            "0000000d 00000014 00000003 00000004 00000000",
        ),
        (
            Structure(k.MQCFT_STRING_FILTER, 2013, b"A*", k.MQCFOP_LIKE),
            "0000000e 0000001c 000007dd 00000012 00000000 00000002 412a0000",
        ),
        (
            Structure(k.MQCFT_BYTE_STRING_FILTER, 7006, b"\1", k.MQCFOP_EQUAL),
            "0000000f 00000018 00001b5e 00000002 00000001 01000000",
        ),
    ],
)
def test_a_structure_is_laid_out_as_documented(structure: Structure, expected: str) -> None:
    assert pack_structure(structure, big_endian=True) == bytes.fromhex(expected)


def test_the_header_has_36_bytes_in_either_order() -> None:
    header = Header(k.MQCFT_COMMAND, k.MQCMD_INQUIRE_Q, k.MQCFH_VERSION_3)
    fields = (k.MQCFT_COMMAND, 36, 3, k.MQCMD_INQUIRE_Q, 1, k.MQCFC_LAST, 0, 0, 0)
    assert pack(header, []) == struct.pack("<9i", *fields)
    assert pack(header, [], big_endian=True) == struct.pack(">9i", *fields)
    assert is_big_endian_message(pack(header, [], big_endian=True))
    assert not is_big_endian_message(pack(header, []))


@given(HEADERS, st.lists(STRUCTURES, max_size=4), st.booleans())
def test_what_is_packed_is_unpacked_unchanged(
    header: Header, structures: list[Structure], big_endian: bool
) -> None:
    data = pack(header, structures, big_endian=big_endian)
    expected = header._replace(parameter_count=len(structures))
    assert unpack(data, big_endian=big_endian) == PcfMessage(expected, tuple(structures))
    assert len(data) % 4 == 0


@given(st.binary(max_size=200))
def test_any_bytes_are_a_message_or_a_pcf_error(data: bytes) -> None:
    found = read(data)
    assert isinstance(found, PcfMessage) or 3000 <= found.reason < 4000
    assert isinstance(found, PcfMessage) or str(found).startswith("MQRCCF_")


@given(
    HEADERS,
    st.lists(STRUCTURES, min_size=1, max_size=4),
    st.lists(st.tuples(st.integers(0, 500), st.binary(min_size=1, max_size=4)), max_size=3),
    st.integers(0, 40),
)
def test_a_damaged_message_is_a_message_or_a_pcf_error(
    header: Header,
    structures: list[Structure],
    damage: list[tuple[int, bytes]],
    cut_bytes: int,
) -> None:
    data = bytearray(pack(header, structures))
    for offset, raw in damage:
        data[offset : offset + len(raw)] = raw
    kept = bytes(data[: len(data) - cut_bytes])
    found = read(kept)
    if isinstance(found, PcfError):
        assert 3000 <= found.reason < 4000
    else:
        # What could be read can be written.
        pack(found.header, found.structures)


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({1: 35}, k.MQRCCF_CFH_LENGTH_ERROR),
        ({2: 0}, k.MQRCCF_CFH_VERSION_ERROR),
        ({2: 4}, k.MQRCCF_CFH_VERSION_ERROR),
        ({8: -1}, k.MQRCCF_CFH_PARM_COUNT_ERROR),
        ({8: 2}, k.MQRCCF_PARM_COUNT_TOO_BIG),
        ({8: 0}, k.MQRCCF_PARM_COUNT_TOO_SMALL),
        # Type, StrucLength, then CodedCharSetId and StringLength of the only structure.
        ({9: 99}, k.MQRCCF_STRUCTURE_TYPE_ERROR),
        ({10: 16}, k.MQRCCF_CFST_LENGTH_ERROR),
        ({10: 400}, k.MQRCCF_CFST_LENGTH_ERROR),
        ({13: -1}, k.MQRCCF_CFST_STRING_LENGTH_ERR),
        ({13: 9}, k.MQRCCF_CFST_STRING_LENGTH_ERR),
    ],
)
def test_a_wrong_field_has_its_reason(changed: dict[int, int], reason: int) -> None:
    header = Header(k.MQCFT_COMMAND, k.MQCMD_INQUIRE_Q)
    words = list(struct.unpack("<16i", pack(header, [string(2016, "12345678")])))
    for place, value in changed.items():
        words[place] = value
    with pytest.raises(PcfError) as raised:
        unpack(struct.pack("<16i", *words))
    assert raised.value.reason == reason


def test_less_than_a_header_is_no_message() -> None:
    with pytest.raises(PcfError, match=r"MQRCCF_MSG_LENGTH_ERROR \(3016\): 35 bytes"):
        unpack(bytes(35))


def test_groups_in_groups_have_a_bound() -> None:
    structure = Structure(k.MQCFT_GROUP, 1, ())
    for _ in range(15):
        structure = Structure(k.MQCFT_GROUP, 1, (structure,))
    header = Header(k.MQCFT_USER, 0)
    assert unpack(pack(header, [structure])).structures == (structure,)
    with pytest.raises(PcfError) as raised:
        unpack(pack(header, [Structure(k.MQCFT_GROUP, 1, (structure,))]))
    assert raised.value.reason == k.MQRCCF_CFGR_PARM_COUNT_ERROR


@pytest.mark.parametrize(
    ("structure", "shown"),
    [
        (Structure(k.MQCFT_INTEGER, 20, 2**31), "2147483648"),
        (Structure(k.MQCFT_INTEGER_LIST, 20, (2**40,)), "1099511627776"),
        (Structure(k.MQCFT_INTEGER, 20, b"x"), "b'x'"),
    ],
)
def test_a_value_that_does_not_fit_is_named(structure: Structure, shown: str) -> None:
    with pytest.raises(PcfError, match=f"parameter 20: .*{shown}") as raised:
        pack_structure(structure)
    assert raised.value.reason == k.MQRCCF_PARM_VALUE_ERROR
    assert raised.value.parameter == 20


@pytest.mark.parametrize(
    ("raw", "ccsid", "message_ccsid", "text"),
    [
        (b"A.B  \0\0", 0, 0, "A.B"),
        ("Größe".encode("latin-1"), 819, 1208, "Größe"),
        ("Größe".encode("latin-1"), 0, 819, "Größe"),
        ("QM1".encode("cp500"), 500, 0, "QM1"),
    ],
)
def test_a_text_is_read_in_its_character_set(
    raw: bytes, ccsid: int, message_ccsid: int, text: str
) -> None:
    structure = Structure(k.MQCFT_STRING, 2016, raw, ccsid=ccsid)
    assert structure.text(message_ccsid) == text
    assert Structure(k.MQCFT_STRING_LIST, 1, (raw,), ccsid=ccsid).texts(message_ccsid) == [text]


@pytest.mark.parametrize(("raw", "ccsid"), [(b"A", 99_999), (b"\xff", 0)])
def test_a_text_of_another_character_set_is_an_error(raw: bytes, ccsid: int) -> None:
    with pytest.raises(PcfError, match="parameter 2016") as raised:
        Structure(k.MQCFT_STRING, 2016, raw, ccsid=ccsid).text()
    assert raised.value.reason == k.MQRCCF_CCSID_ERROR
