"""The structure classes: names, initial values, checks, and bytes as pymqi has them."""

from __future__ import annotations

import copy

import pytest

from mayfly import pymqi
from mayfly.mqi import structures
from mayfly.pymqi import CMQC

INITIAL = [
    (pymqi.MD, "StrucId", b"MD  "),
    (pymqi.MD, "Version", 1),
    (pymqi.MD, "MsgType", CMQC.MQMT_DATAGRAM),
    (pymqi.MD, "Expiry", -1),
    (pymqi.MD, "Encoding", 546),
    (pymqi.MD, "CodedCharSetId", 0),
    (pymqi.MD, "Format", b""),
    (pymqi.MD, "Priority", -1),
    (pymqi.MD, "Persistence", 2),
    (pymqi.MD, "MsgId", b""),
    (pymqi.MD, "ReplyToQ", b""),
    (pymqi.MD, "GroupId", b""),
    (pymqi.MD, "MsgSeqNumber", 1),
    (pymqi.MD, "OriginalLength", -1),
    (pymqi.GMO, "StrucId", b"GMO "),
    (pymqi.GMO, "Version", 1),
    (pymqi.GMO, "Options", 0),
    (pymqi.GMO, "WaitInterval", 0),
    (pymqi.GMO, "MatchOptions", 3),
    (pymqi.GMO, "GroupStatus", CMQC.MQGS_NOT_IN_GROUP),
    (pymqi.GMO, "Segmentation", CMQC.MQSEG_INHIBITED),
    (pymqi.GMO, "Reserved1", b" "),
    (pymqi.GMO, "ReturnedLength", -1),
    (pymqi.PMO, "StrucId", b"PMO "),
    (pymqi.PMO, "Options", 0),
    (pymqi.PMO, "Timeout", -1),
    (pymqi.PMO, "PubLevel", 0),
    (pymqi.OD, "StrucId", b"OD  "),
    (pymqi.OD, "ObjectType", CMQC.MQOT_Q),
    (pymqi.OD, "ObjectName", b""),
    (pymqi.OD, "DynamicQName", b"AMQ.*"),
    (pymqi.OD, "ObjectStringVSCCSID", 0),
    (pymqi.OD, "ResolvedType", -3),
]


@pytest.mark.parametrize(
    ("structure", "field", "value"), INITIAL, ids=[f"{s.__name__}.{f}" for s, f, _ in INITIAL]
)
def test_initial_values_are_those_of_pymqi(
    structure: type[pymqi.MQOpts], field: str, value: int | bytes
) -> None:
    assert getattr(structure(), field) == value
    assert structure()[field] == value
    assert structure().get()[field] == value


@pytest.mark.parametrize(
    ("structure", "length"), [(pymqi.MD, 364), (pymqi.GMO, 112), (pymqi.PMO, 184), (pymqi.OD, 424)]
)
def test_packed_form_has_the_length_of_the_newest_version_and_comes_back(
    structure: type[pymqi.MQOpts], length: int
) -> None:
    packed = structure().pack()
    assert len(packed) == structure().get_length() == length
    other = structure()
    other.unpack(packed)
    assert other.pack() == packed


def test_E23_expiry_is_at_offset_16_of_a_packed_descriptor() -> None:
    packed = pymqi.MD(Version=2, Expiry=600, Format=b"MQSTR").pack()
    assert packed[16:20] == (600).to_bytes(4, "little")
    assert structures.MD.unpack(packed)["Format"] == "MQSTR"


def test_unpack_gives_fields_in_their_full_length() -> None:
    md = pymqi.MD()
    md.unpack(pymqi.MD(ReplyToQ=b"R").pack())
    assert md.ReplyToQ == b"R".ljust(48, b"\0")
    assert md.MsgId == bytes(24)


def test_fields_are_attributes_items_and_keywords() -> None:
    md = pymqi.MD(Expiry=5)
    md.Priority = 7
    md["Report"] = CMQC.MQRO_COA
    md.set(MsgId=b"M", ReplyToQ="R")
    assert (md.Expiry, md["Priority"], md.Report) == (5, 7, CMQC.MQRO_COA)
    assert (md.MsgId, md.ReplyToQ) == (b"M", b"R")
    assert copy.copy(md).get() == md.get()
    assert "Expiry: 5" in str(md)
    assert repr(pymqi.MD(Expiry=5)) == "MD(Expiry=5)"


def test_objects_share_nothing() -> None:
    one, other = pymqi.MD(), pymqi.MD()
    one.Expiry = 1
    assert other.Expiry == -1
    one.get()["Expiry"] = 9
    assert one.Expiry == 1


def test_unknown_field_is_an_attribute_error() -> None:
    md = pymqi.MD()
    with pytest.raises(AttributeError, match=r"MD has no field 'Expire'"):
        md.Expire = 1
    with pytest.raises(AttributeError, match="Expire"):
        md["Expire"] = 1
    with pytest.raises(AttributeError, match="Expire"):
        md["Expire"]
    with pytest.raises(AttributeError, match="Expire"):
        md.set(Priority=3, Expire=1)
    with pytest.raises(AttributeError, match="Expire"):
        pymqi.MD(Expire=1)
    with pytest.raises(AttributeError):
        del md.Expiry
    assert md.Priority == -1


@pytest.mark.parametrize(
    ("field", "value", "error"),
    [
        ("Expiry", 1.0, TypeError),
        ("Expiry", "600", TypeError),
        ("Expiry", None, TypeError),
        ("Expiry", 2**31, ValueError),
        ("Report", -(2**31) - 1, ValueError),
        ("MsgId", 5, TypeError),
        ("MsgId", None, TypeError),
        ("MsgId", bytes(25), ValueError),
        ("ReplyToQ", "Q" * 49, ValueError),
    ],
)
def test_value_that_is_no_field_value_is_refused_by_name(
    field: str, value: object, error: type[Exception]
) -> None:
    md = pymqi.MD()
    with pytest.raises(error, match=f"MD.{field}"):
        setattr(md, field, value)
    assert md.get() == pymqi.MD().get()


def test_unpack_refuses_another_length() -> None:
    with pytest.raises(ValueError, match="364 bytes, not 3"):
        pymqi.MD().unpack(b"abc")


def test_older_spellings_are_the_same_classes() -> None:
    assert (pymqi.md, pymqi.gmo, pymqi.pmo, pymqi.od) == (pymqi.MD, pymqi.GMO, pymqi.PMO, pymqi.OD)


class Header(pymqi.MQOpts):
    """An MQDLH as programs for pymqi define it: by a list of its fields."""

    def __init__(self, **kw: object) -> None:
        fields = [
            ["StrucId", CMQC.MQDLH_STRUC_ID, "4s"],
            ["Version", CMQC.MQDLH_VERSION_1, pymqi.MQLONG_TYPE],
            ["Reason", 0, pymqi.MQLONG_TYPE],
            ["DestQName", b"", "48s"],
            ["Flags", [0, 0], pymqi.MQLONG_TYPE, 2],
            ["Token", pymqi.py23long(0), pymqi.INTEGER64_TYPE],
        ]
        super().__init__(tuple(fields), **kw)


def test_a_structure_of_a_programs_own_is_a_list_of_fields() -> None:
    header = Header(Reason=2053, DestQName="Q1")
    header.Flags = [1, 2]
    header["Token"] = 7
    packed = header.pack()
    assert len(packed) == header.get_length() == 4 + 4 + 4 + 48 + 2 * 4 + 4 + 8
    assert packed[8:14] == b"\x05\x08\0\0Q1"
    again = Header()
    again.unpack(packed)
    assert again.get() == {**header.get(), "DestQName": b"Q1".ljust(48, b"\0")}
    assert copy.copy(again).pack() == packed
    assert str(header).splitlines()[4] == "Flags: [1, 2]"
    # What is missing at the end is NULs, as in pymqi.
    again.unpack(packed[:12])
    assert (again.Reason, again.Token, again.Flags) == (2053, 0, [0, 0])
    with pytest.raises(AttributeError, match=r"Header .* field 'Raison': did you mean Reason\?"):
        Header(Raison=1)


def test_a_misspelt_field_names_the_one_that_is_meant() -> None:
    md = pymqi.MD()
    with pytest.raises(AttributeError, match=r"MD has no field 'Reprot': did you mean Report\?"):
        md.Reprot = 1
    with pytest.raises(AttributeError, match=r"MD has no field 'expiry': did you mean Expiry\?"):
        md["expiry"]
    with pytest.raises(AttributeError, match=r"MD has no field 'Colour'$"):
        pymqi.MD(Colour=1)
