"""pymqi's structure classes: MQ structures whose fields are attributes, items and keywords.

Among their fields are strings of any length, MQCHARV, as MQOD and MQSD have them: five fields each,
of which the first, VSPtr, is a pointer. Here it is a number that has its string with it, so that a
copy of the structure has it as well and nothing is read from an address.
"""

from __future__ import annotations

import struct
from collections.abc import Container, Mapping
from operator import index
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple, TypeAlias

from mayfly.mqi import constants as c
from mayfly.mqi import structures
from mayfly.mqi.errors import mq_error
from mayfly.mqi.layout import Field, Layout

#: The fields of a structure by name; which are numbers and which bytes, its class knows.
Fields: TypeAlias = dict[str, Any]
#: VSLength of a string that ends with its first NUL, MQVS_NULL_TERMINATED.
NULL_TERMINATED: Final = -1


def check_structure(fields: Fields, struc_id: bytes, versions: Container[int], reason: int) -> None:
    """Raise the reason code unless StrucId and Version are those of a structure."""
    if fields["StrucId"] != struc_id or fields["Version"] not in versions:
        text = f"StrucId {fields['StrucId']!r}, Version {fields['Version']!r}"
        raise mq_error(reason, text)


class StringPointer(int):
    """A VSPtr: the number a C program would see, and the bytes it leads to."""

    target: bytes

    def __new__(cls, target: bytes) -> StringPointer:
        pointer = super().__new__(cls, id(target))
        pointer.target = target
        return pointer


def string_in(fields: Fields, name: str, reason: int) -> str:
    """Return the string of that name in a structure's fields, empty when there is none.

    Raises the reason given for a pointer that set_vs has not made, a length beyond its end, an
    offset beside it, or bytes that are not UTF-8.
    """
    pointer, length = fields[f"{name}VSPtr"], fields[f"{name}VSLength"]
    if not pointer and length <= 0 and not fields[f"{name}VSOffset"]:
        return ""
    if not isinstance(pointer, StringPointer):
        raise mq_error(reason, f"{name}.VSPtr {pointer} with VSLength {length} leads nowhere")
    if fields[f"{name}VSOffset"]:
        raise mq_error(reason, f"{name}.VSOffset {fields[f'{name}VSOffset']} beside a VSPtr")
    target = pointer.target
    if length == NULL_TERMINATED:
        target = target.partition(b"\0")[0]
    elif not 0 <= length <= len(target):
        raise mq_error(reason, f"{name}.VSLength {length} is not within 0 .. {len(target)}")
    else:
        target = target[:length]
    try:
        return target.decode()
    except UnicodeDecodeError as error:
        raise mq_error(reason, f"{name} {target!r} is not UTF-8: {error.reason}") from None


def return_string(fields: Fields, name: str, text: str) -> None:
    """Give a string back in the buffer that a program has set aside for it; without one, nothing.

    VSLength is its whole length; of one that does not fit the last VSBufSize bytes are returned.
    """
    buffer_bytes = fields[f"{name}VSBufSize"]
    if buffer_bytes > 0:
        raw = text.encode()
        fields[f"{name}VSPtr"] = StringPointer(raw[-buffer_bytes:])
        fields[f"{name}VSLength"] = len(raw)


FieldValue: TypeAlias = int | bytes

_NUMBER_CODES = {"i32": "i", "i64": "q", "ptr": "Q"}
_NUMBER_RANGES = {
    "b": (-(2**7), 2**7 - 1),
    "i": (-(2**31), 2**31 - 1),
    "q": (-(2**63), 2**63 - 1),
    "Q": (0, 2**64 - 1),
}
_PAD_NAME = "pad"
_BLANK = ord(" ")


class _Member(NamedTuple):
    """One field: its code in the struct module, its length (0 for a number), its first value."""

    name: str
    code: str
    length: int
    initial: FieldValue

    def checked(self, owner: str, value: object) -> FieldValue:
        """Return a value as the field holds it; raises TypeError or ValueError naming the field."""
        if not self.length:
            return self._checked_number(owner, value)
        if isinstance(value, str):
            value = value.encode()
        if not isinstance(value, (bytes, bytearray)):
            raise TypeError(f"{owner}.{self.name} takes bytes, not {type(value).__name__}")
        if len(value) > self.length:
            raise ValueError(
                f"{owner}.{self.name} holds {self.length} bytes, {bytes(value)!r} is longer"
            )
        return bytes(value)

    def _checked_number(self, owner: str, value: object) -> int:
        if not isinstance(value, int):
            value = self._number_of(owner, value)
        low, high = _NUMBER_RANGES[self.code]
        if not low <= value <= high:
            raise ValueError(f"{owner}.{self.name} {value} is not within {low} .. {high}")
        return value

    def _number_of(self, owner: str, value: Any) -> int:
        """Return what stands for a number: a queue handle does, for PMO.Context."""
        try:
            return index(value)
        except TypeError:
            text = f"{owner}.{self.name} takes an integer, not {type(value).__name__}"
            raise TypeError(text) from None


def _member(field: Field, initial: Mapping[str, FieldValue]) -> _Member:
    name = field.name.replace(".", "") if field.name else _PAD_NAME
    first = initial.get(name)
    if field.kind in _NUMBER_CODES:
        assert isinstance(field.initial, int)
        return _Member(
            name, _NUMBER_CODES[field.kind], 0, field.initial if first is None else first
        )
    if isinstance(first, int):
        return _Member(name, "b", 0, first)
    if first is None:
        first = field.initial.encode() if isinstance(field.initial, str) else b""
    return _Member(name, f"{field.length}s", field.length, first)


class MQOpts:
    """A structure of the MQI: ``md.Expiry``, ``md["Expiry"]``, ``MD(Expiry=600)``, ``md.get()``.

    An assignment is checked at once: AttributeError for a field that does not exist, TypeError for
    a value of the wrong type, ValueError for one that does not fit. Text is taken as its UTF-8. The
    fields are in ``vars()``, where the verbs read and write them without these checks.
    """

    members: ClassVar[dict[str, _Member]] = {}
    _initial: ClassVar[dict[str, FieldValue]] = {}
    _codec: ClassVar[struct.Struct] = struct.Struct("")

    def __init_subclass__(
        cls, layout: Layout | None = None, initial: Mapping[str, FieldValue] | None = None
    ) -> None:
        """Derive a class from a layout; ``initial`` holds what pymqi begins with instead.

        Without a layout it is one that others have in common.
        """
        if layout is None:
            return
        fields = layout.fields
        made = [_member(field, {} if initial is None else initial) for field in fields]
        # The gap at the end of a structure is a field in pymqi, those inside are alignment.
        inside = {place for place, field in enumerate(fields[:-1]) if not field.name}
        named = [member for place, member in enumerate(made) if place not in inside]
        cls.members = {member.name: member for member in named}
        cls._initial = {member.name: member.initial for member in named}
        codes = [fields[n].code if n in inside else made[n].code for n in range(len(fields))]
        cls._codec = struct.Struct("<" + "".join(codes))

    def __init__(self, **kw: object) -> None:
        object.__setattr__(self, "__dict__", self._initial.copy())
        if kw:
            self.set(**kw)

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Tell type checkers that fields are attributes."""

    def __setattr__(self, name: str, value: object) -> None:
        vars(self)[name] = self._member(name).checked(type(self).__name__, value)

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"{type(self).__name__}.{name} cannot be deleted")

    def __getitem__(self, key: str) -> Any:
        self._member(key)
        return vars(self)[key]

    def __setitem__(self, key: str, value: object) -> None:
        setattr(self, key, value)

    def set(self, **kw: object) -> None:
        """Set fields by name; nothing is set when one of them is wrong."""
        owner = type(self).__name__
        given = {}
        for name, value in kw.items():
            given[name] = self._member(name).checked(owner, value)
        vars(self).update(given)

    def get(self) -> dict[str, FieldValue]:
        """Return the fields as a new dictionary."""
        return dict(vars(self))

    def pack(self) -> bytes:
        """Return the structure as bytes, with the fields of its newest version."""
        return self._codec.pack(*(vars(self)[name] for name in self.members))

    def unpack(self, buff: bytes) -> None:
        """Take the fields from a packed structure; raises ValueError when its length is wrong."""
        if len(buff) != self._codec.size:
            raise ValueError(f"{type(self).__name__} has {self._codec.size} bytes, not {len(buff)}")
        vars(self).update(zip(self.members, self._codec.unpack(buff), strict=True))

    def get_length(self) -> int:
        """Return the length of the packed structure in bytes."""
        return self._codec.size

    def set_vs(
        self,
        vs_name: str,
        vs_value: str | bytes | None = None,
        vs_offset: int = 0,
        vs_buffer_size: int = 0,
        vs_ccsid: int = 0,
    ) -> None:
        """Set a string of any length, such as ObjectString: bytes, or text as its UTF-8.

        For one that a verb returns, ``vs_buffer_size`` says how many bytes of it are wanted.
        """
        raw = vs_value.encode() if isinstance(vs_value, str) else vs_value
        if not isinstance(raw, bytes | None):
            raise TypeError(f"{vs_name} takes bytes or str, not {type(raw).__name__}")
        name = vs_name.removesuffix("VSPtr")
        self.set(
            **{
                f"{name}VSPtr": 0 if raw is None else StringPointer(raw),
                f"{name}VSOffset": vs_offset,
                f"{name}VSBufSize": vs_buffer_size,
                f"{name}VSLength": 0 if raw is None else len(raw),
                f"{name}VSCCSID": vs_ccsid,
            }
        )

    def get_vs(self, vs_name: str) -> bytes | None:
        """Return a string of any length, up to its first NUL; None when it is not set."""
        pointer = self[f"{vs_name.removesuffix('VSPtr')}VSPtr"]
        if not isinstance(pointer, StringPointer):
            return None
        return pointer.target.partition(b"\0")[0]

    def __str__(self) -> str:
        return "\n".join(f"{name}: {value!r}" for name, value in vars(self).items())

    def __repr__(self) -> str:
        changed = (f"{n}={v!r}" for n, v in vars(self).items() if v != self._initial[n])
        return f"{type(self).__name__}({', '.join(changed)})"

    def _member(self, name: str) -> _Member:
        member = self.members.get(name)
        if member is None:
            raise AttributeError(f"{type(self).__name__} has no field {name!r}")
        return member


class MD(MQOpts, layout=structures.MD):
    """The message descriptor, MQMD."""


class GMO(
    MQOpts,
    layout=structures.GMO,
    initial={
        "GroupStatus": _BLANK,
        "SegmentStatus": _BLANK,
        "Segmentation": _BLANK,
        "Reserved1": b" ",
    },
):
    """The get options, MQGMO."""


class PMO(MQOpts, layout=structures.PMO, initial={"PubLevel": 0}):
    """The put options, MQPMO."""


class OD(
    MQOpts,
    layout=structures.OD,
    initial={
        "ObjectStringVSCCSID": 0,
        "SelectionStringVSCCSID": 0,
        "ResObjectStringVSCCSID": 0,
    },
):
    """The object descriptor, MQOD."""


class SD(
    MQOpts,
    layout=structures.SD,
    initial={
        "PubPriority": c.MQPRI_PRIORITY_AS_Q_DEF,
        "ObjectStringVSCCSID": 0,
        "SubNameVSCCSID": 0,
        "SubUserDataVSCCSID": 0,
        "SelectionStringVSCCSID": 0,
        "ResObjectStringVSCCSID": 0,
    },
):
    """The subscription descriptor, MQSD."""


class SRO(MQOpts, layout=structures.SRO):
    """The options of a subscription request, MQSRO."""


class STS(
    MQOpts,
    layout=structures.STS,
    initial={"Version": 2, "ObjectStringVSCCSID": 0, "SubNameVSCCSID": 0},
):
    """The result of MQSTAT, MQSTS; ibmmq has it, pymqi has not."""


class CMHO(MQOpts, layout=structures.CMHO):
    """The options for a new message handle, MQCMHO."""


class DMHO(MQOpts, layout=structures.DMHO):
    """The options for deleting a message handle, MQDMHO."""


class PD(MQOpts, layout=structures.PD):
    """The descriptor of a property, MQPD."""


class SMPO(MQOpts, layout=structures.SMPO):
    """The options for setting a property, MQSMPO."""


class IMPO(MQOpts, layout=structures.IMPO):
    """The options for inquiring a property, MQIMPO."""


class DMPO(MQOpts, layout=structures.DMPO):
    """The options for deleting a property, MQDMPO."""
