"""Every offset, length and initial value of the MQ structures, against a table of the bytes."""

import struct
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mayfly.mqi.constants import MQENC_NATIVE, MQENC_NORMAL, MQENC_S390
from mayfly.mqi.errors import MQError
from mayfly.mqi.layout import Field, Layout, Value, is_big_endian
from mayfly.mqi.structures import DDH, DLH, GMO, IIH, LAYOUTS, MD, MDE, OD, RFH2, SD, TMC2, XQH

NUMBERS = {"i32": "i", "i64": "q", "ptr": "Q"}


class Row(NamedTuple):
    structure: str
    field: str
    offset: int
    length: int
    kind: str
    initial: str

    @property
    def value(self) -> Value:
        if self.kind == "char":
            return self.initial
        return bytes(self.length) if self.kind == "byte" else int(self.initial)

    @property
    def raw(self) -> bytes:
        if self.kind in NUMBERS:
            return struct.pack("<" + NUMBERS[self.kind], int(self.initial))
        if self.kind == "char":
            return self.initial.encode().ljust(self.length)
        return bytes(self.length)


def _rows() -> list[Row]:
    text = (Path(__file__).parent / "data" / "layouts.tsv").read_text(encoding="ascii")
    lines = [line.split("\t") for line in text.splitlines() if not line.startswith("#")]
    return [Row(s, f, int(offset), int(length), *rest) for s, f, offset, length, *rest in lines]


ROWS = _rows()
LENGTHS = {
    "MD": {1: 324, 2: 364},
    "MDE": {2: 72},
    "XQH": {1: 428},
    "DLH": {1: 172},
    "RFH2": {2: 36},
    "TM": {1: 684},
    "TMC2": {2: 732},
    "IIH": {1: 84},
    "GMO": {1: 72, 2: 80, 3: 100, 4: 112},
    "PMO": {1: 128, 2: 160, 3: 184},
    "OD": {1: 168, 2: 208, 3: 344, 4: 424},
    "SD": {1: 344},
    "SRO": {1: 16},
    "STS": {1: 224, 2: 280},
    "DDH": {1: 208},
}
REASONS = {
    "MD": 2026,
    "MDE": 2248,
    "XQH": 2260,
    "DLH": 2141,
    "RFH2": 2334,
    "TM": 2265,
    "TMC2": 2191,
    "IIH": 2148,
    "GMO": 2186,
    "PMO": 2173,
    "OD": 2044,
    "SD": 2424,
    "SRO": 2438,
    "STS": 2426,
    "DDH": 2142,
}
layouts = pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS.keys())
VERSIONS = [(name, v, length) for name, ends in LENGTHS.items() for v, length in ends.items()]


def newest(layout: Layout) -> int:
    return layout.versions[-1]


@pytest.mark.parametrize("structure", dict.fromkeys(row.structure for row in ROWS))
def test_field_has_its_offset_length_and_initial_value(structure: str) -> None:
    layout = LAYOUTS[structure]
    rows = [row for row in ROWS if row.structure == structure]
    version_field = {} if structure == "TMC2" else {"Version": int(_initial_version(rows[0]))}
    data = layout.pack(version_field, version=newest(layout))
    for row in rows:
        assert layout.offset_of(row.field) == row.offset, row
        assert data[row.offset : row.offset + row.length] == row.raw, row
        assert layout.initial()[row.field] == row.value, row


def _initial_version(row: Row) -> str:
    return next(r.initial for r in ROWS if r.structure == row.structure and r.field == "Version")


def test_the_table_names_every_field_of_every_layout() -> None:
    named = {(row.structure, row.field) for row in ROWS}
    known = {
        (name, field)
        for name, layout in LAYOUTS.items()
        for field in layout.initial()
        if name not in ("SD", "DDH") and not field.startswith("MsgDesc.")
    }
    assert named == known
    assert len(named) == 198


def test_XQH_embeds_every_field_of_MQMD_version_1_at_104() -> None:
    embedded = [row for row in ROWS if row.structure == "MD" and row.offset < 324]
    initial = XQH.initial()
    for row in embedded:
        assert XQH.offset_of(f"MsgDesc.{row.field}") == 104 + row.offset
        assert initial[f"MsgDesc.{row.field}"] == row.value
    assert len(initial) == 4 + len(embedded)


@pytest.mark.parametrize(("name", "version", "length"), VERSIONS)
def test_each_version_has_its_length(name: str, version: int, length: int) -> None:
    layout = LAYOUTS[name]
    assert layout.versions == tuple(LENGTHS[name])
    assert layout.length(version) == length
    data = layout.pack({}, version=version)
    assert len(data) == length
    assert layout.pack(layout.unpack(data)) == data


def test_E23_expiry_is_at_16_of_any_MQMD_and_120_of_XQH_data() -> None:
    for version in (1, 2):
        data = MD.pack({"Expiry": 0x01020304}, version=version)
        assert data[16:20] == b"\x04\x03\x02\x01"
    assert MD.pack({"Expiry": 0x01020304}, big_endian=True)[16:20] == b"\x01\x02\x03\x04"
    assert XQH.pack({"MsgDesc.Expiry": 600})[120:124] == b"\x58\x02\0\0"
    assert XQH.offset_of("MsgDesc.Report") == 112
    assert XQH.offset_of("MsgDesc.MsgType") == 116
    assert XQH.offset_of("MsgDesc.Feedback") == 124
    assert XQH.offset_of("MsgDesc.Format") == 136
    assert XQH.offset_of("MsgDesc.Priority") == 144
    assert XQH.offset_of("MsgDesc.MsgId") == 152
    assert XQH.offset_of("MsgDesc.CorrelId") == 176
    assert XQH.offset_of("MsgDesc.PutDate") == 408


def test_SD_has_the_life_of_the_subscription_at_112() -> None:
    assert SD.offset_of("SubExpiry") == 112
    assert SD.unpack(SD.pack({}))["SubExpiry"] == -1
    assert SD.unpack(SD.pack({"SubExpiry": 50}))["SubExpiry"] == 50
    # 8-byte pointers stand at multiples of 8.
    assert [SD.offset_of(f) % 8 for f in SD.initial() if f.endswith("VSPtr")] == [0] * 5


def test_DDH_is_written_as_documented() -> None:
    values = {
        "DueTime": 1_700_000_000_000,
        "TargetNumber": 3,
        "TargetQName": "Q1",
        "TargetQMgrName": "QM1",
        "OriginalMsgId": b"m" * 24,
        "OriginalCorrelId": b"c" * 24,
        "Encoding": 273,
        "CodedCharSetId": 1208,
        "Format": "MQSTR",
        "SubId": b"s" * 24,
    }
    assert DDH.pack(values) == (
        b"DDH " + struct.pack("<iiiq", 1, 208, 3, 1_700_000_000_000)
        + b"Q1".ljust(48) + b"QM1".ljust(48) + b"m" * 24 + b"c" * 24
        + struct.pack("<ii", 273, 1208) + b"MQSTR   " + b"s" * 24
    )  # fmt: skip


def test_numbers_are_checked_and_named() -> None:
    for value in (2**31, -(2**31) - 1):
        with pytest.raises(ValueError, match=f"Expiry {value}"):
            MD.pack({"Expiry": value})
    assert MD.unpack(MD.pack({"Expiry": -(2**31)}))["Expiry"] == -(2**31)
    with pytest.raises(TypeError, match="Expiry '5'"):
        MD.pack({"Expiry": "5"})


def test_text_is_blank_padded_and_ends_at_a_NUL() -> None:
    assert DLH.pack({"DestQName": b"Q1"}) == DLH.pack({"DestQName": "Q1"})
    padded = DLH.pack({"DestQName": b"Q1\0rubbish"})
    assert DLH.unpack(padded)["DestQName"] == "Q1"
    assert DLH.unpack(DLH.pack({"DestQName": " Q 1  "}))["DestQName"] == " Q 1"
    with pytest.raises(TypeError, match="DestQName 5"):
        DLH.pack({"DestQName": 5})


def test_text_that_is_too_long_is_refused_not_cut() -> None:
    name = "A" * 49
    with pytest.raises(ValueError, match=f"DestQName '{name}' is longer than 48 bytes"):
        DLH.pack({"DestQName": name})
    assert DLH.unpack(DLH.pack({"DestQName": name[:48]}))["DestQName"] == name[:48]
    with pytest.raises(ValueError, match="MsgId"):
        MD.pack({"MsgId": bytes(25)})
    with pytest.raises(TypeError, match="MsgId"):
        MD.pack({"MsgId": "text"})


def test_bytes_are_NUL_padded_and_kept_whole() -> None:
    assert MD.unpack(MD.pack({"MsgId": b" a "}))["MsgId"] == b" a " + bytes(21)


def test_an_unknown_field_is_named() -> None:
    with pytest.raises(KeyError, match="Expiri"):
        MD.pack({"Expiri": 1})
    with pytest.raises(KeyError, match="Expiri"):
        MD.offset_of("Expiri")


def test_a_field_of_a_later_version_is_not_lost_in_silence() -> None:
    with pytest.raises(ValueError, match="MsgSeqNumber 7 needs a later version of MQMD"):
        MD.pack({"MsgSeqNumber": 7}, version=1)
    assert len(MD.pack(MD.initial() | {"Version": 1})) == 324


def test_version_field_may_differ_from_the_fields_written() -> None:
    """pymqi writes Version 1 and all the fields of version 2."""
    data = MD.pack({"Version": 1, "MsgSeqNumber": 7}, version=2)
    assert (len(data), data[4:8]) == (364, b"\x01\0\0\0")
    assert MD.unpack(data, version=2)["MsgSeqNumber"] == 7
    assert "MsgSeqNumber" not in MD.unpack(data)
    assert MD.pack({}, version=2)[4:8] == b"\x02\0\0\0"
    with pytest.raises(ValueError, match="Version 3"):
        MD.pack({"Version": 3})


@layouts
@pytest.mark.parametrize("big_endian", [False, True])
def test_P12_damaged_structure_has_its_own_reason(layout: Layout, big_endian: bool) -> None:
    name = next(name for name, known in LAYOUTS.items() if known is layout)
    good = layout.pack({}, version=newest(layout), big_endian=big_endian)
    bad_version = b"   9" if layout is TMC2 else (99).to_bytes(4, "big" if big_endian else "little")
    for bad in (
        b"",
        good[:7],
        good[:-1],
        b"XXXX" + good[4:],
        good[:4] + bad_version + good[8:],
        good[:4] + b"\xff\xff\xff\xff" + good[8:],
    ):
        with pytest.raises(MQError) as caught:
            layout.unpack(bad, big_endian=big_endian)
        assert (caught.value.reason, caught.value.comp) == (REASONS[name], 2)
    assert layout.unpack(good + b"data", big_endian=big_endian)


def test_P12_wrong_byte_order_is_a_wrong_version() -> None:
    for layout in (MD, MDE, XQH, DLH, RFH2, IIH, GMO, OD):
        with pytest.raises(MQError, match=r"Version (16777216|33554432) does not exist"):
            layout.unpack(layout.pack({}, big_endian=True))


def test_is_big_endian_looks_at_the_integer_digit_only() -> None:
    assert is_big_endian(MQENC_NORMAL)
    assert is_big_endian(MQENC_S390)
    assert is_big_endian(0x221)
    assert not is_big_endian(MQENC_NATIVE)
    assert not is_big_endian(0x110)


def _values_of(layout: Layout) -> st.SearchStrategy[dict[str, Value]]:
    return st.fixed_dictionaries(
        {},
        optional={
            field.name: _value_of(field)
            for field in layout.fields
            if field.name not in ("", "StrucId", "Version")
        },
    )


def _value_of(field: Field) -> st.SearchStrategy[Value]:
    if field.kind == "char":
        text = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))
        return text.map(lambda drawn: _fitting(drawn, field.length))
    if field.kind == "byte":
        return st.binary(min_size=field.length, max_size=field.length)
    bits = 8 * field.length
    low = 0 if field.kind == "ptr" else -(2 ** (bits - 1))
    return st.integers(low, low + 2**bits - 1)


def _fitting(text: str, length: int) -> str:
    while len(text.encode()) > length:
        text = text[:-1]
    return text.rstrip(" ")


@layouts
@settings(max_examples=25)  # of each of 13 layouts
@given(data=st.data(), big_endian=st.booleans())
def test_what_is_packed_is_unpacked(layout: Layout, data: st.DataObject, big_endian: bool) -> None:
    values = data.draw(_values_of(layout))
    packed = layout.pack(values, version=newest(layout), big_endian=big_endian)
    assert len(packed) == layout.length(newest(layout))
    found = layout.unpack(memoryview(packed), big_endian=big_endian)
    assert found == layout.initial() | {"Version": found["Version"]} | values
    version = found["Version"]
    assert (int(version) if isinstance(version, (int, str)) else version) == newest(layout)


@given(raw=st.binary(min_size=48, max_size=48))
def test_any_text_bytes_can_be_read_and_written_again(raw: bytes) -> None:
    text = DLH.unpack(b"".join((DLH.pack({})[:12], raw, DLH.pack({})[60:])))["DestQName"]
    assert isinstance(text, str)
    assert DLH.unpack(DLH.pack({"DestQName": text}))["DestQName"] == text


def test_text_is_UTF_8_or_else_latin_1() -> None:
    assert MD.pack({"UserIdentifier": "Zoë"})[196:208] == b"Zo\xc3\xab        "
    assert DLH.unpack(DLH.pack({"DestQName": b"\xff" * 48}))["DestQName"] == "ÿ" * 48
    with pytest.raises(ValueError, match="UserIdentifier"):
        MD.pack({"UserIdentifier": "待" * 5})
