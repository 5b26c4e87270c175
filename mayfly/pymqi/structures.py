"""Structures of pymqi: MQ structures whose fields are attributes, items and keywords.

MQOD and MQSD have strings of any length (MQCHARV), each with five fields. The first, VSPtr, is a
pointer in C. Here it is a number that keeps its string, so that copies of the structure have it and
no address is read.
"""

from __future__ import annotations

import struct
from collections.abc import Container, Iterable, Mapping, Sequence
from difflib import get_close_matches
from operator import index
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple, Self, TypeAlias

from mayfly.mqi import constants as c
from mayfly.mqi import structures
from mayfly.mqi.errors import mq_error
from mayfly.mqi.layout import Field, Layout

#: The fields of a structure by name; which are numbers and which bytes, its class knows.
Fields: TypeAlias = dict[str, Any]
#: VSLength of a string that ends with its first NUL, MQVS_NULL_TERMINATED.
NULL_TERMINATED: Final = -1


def check_structure(fields: Fields, struc_id: bytes, versions: Container[int], reason: int) -> None:
    """Raise MQError with ``reason`` for a wrong StrucId or Version of a structure.

    ``versions`` are the allowed versions.
    """
    if fields["StrucId"] != struc_id or fields["Version"] not in versions:
        text = f"StrucId {fields['StrucId']!r}, Version {fields['Version']!r}"
        raise mq_error(reason, text)


class StringPointer(int):
    """A VSPtr: a number like the pointer of a C program, with the bytes it points to."""

    target: bytes

    def __new__(cls, target: bytes) -> StringPointer:
        pointer = super().__new__(cls, id(target))
        pointer.target = target
        return pointer


def string_in(fields: Fields, name: str, reason: int) -> str:
    """Return a variable-length string (MQCHARV) of a structure, empty if it is not set.

    ``name`` is its prefix, such as ObjectString. Raises MQError with ``reason`` for a pointer that
    ``set_vs`` has not made, a wrong length, an offset beside a pointer, or bytes that are not
    UTF-8.
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
    """Return ``text`` to the program in a variable-length string (MQCHARV) with a buffer.

    Sets VSPtr, and VSLength to the full length in bytes. If the text does not fit, its last
    VSBufSize bytes are returned. Does nothing if VSBufSize is 0.
    """
    buffer_bytes = fields[f"{name}VSBufSize"]
    if buffer_bytes > 0:
        raw = text.encode()
        fields[f"{name}VSPtr"] = StringPointer(raw[-buffer_bytes:])
        fields[f"{name}VSLength"] = len(raw)


FieldValue: TypeAlias = int | bytes
#: The struct codes of an MQLONG and of an MQINT64, for structures that programs define.
MQLONG_TYPE: Final = "i"
INTEGER64_TYPE: Final = "q"


#: Names of ibmmq for fields of pymqi.
_IN_IBMMQ: Final = {"_StrucId": "StrucId"}
#: Fields of bytes that are never texts.
_IDENTIFIERS: Final = frozenset(
    {
        "AccountingToken",
        "AlternateSecurityId",
        "ConnTag",
        "ConnectionId",
        "CorrelId",
        "GroupId",
        "MsgId",
        "MsgToken",
        "PubAccountingToken",
        "SubCorrelId",
        "TranInstanceId",
    }
)


def to_string(value: object, encoding: str = "utf8") -> Any:
    """Return bytes as str, up to the first NUL and without blanks around it.

    Bytes that are no text in ``encoding``, and other values, are returned unchanged.
    """
    if not isinstance(value, bytes):
        return value
    try:
        return value.partition(b"\0")[0].decode(encoding).strip()
    except UnicodeError:
        return value


def ensure_bytes(text: str | bytes, encoding: str = "ascii") -> bytes:
    """Return a str as bytes in ``encoding``; bytes are returned unchanged."""
    return text.encode(encoding) if isinstance(text, str) else text


def py23long(number: int) -> int:
    """Return the number itself: in pymqi for Python 2, a long."""
    return number


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
    """A field: its struct code, its length in bytes (0 for a number) and its initial value."""

    name: str
    code: str
    length: int
    initial: FieldValue

    def checked(self, owner: str, value: object) -> FieldValue:
        """Return a value in the form of the field: an int in range, or bytes; a str is encoded.

        ``owner`` is the structure's name for errors. Raises TypeError for another type, ValueError
        for one out of range or too long.
        """
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

    def _checked_number(self, owner: str, value: Any) -> int:
        """Return a value as int; raises TypeError for another type, ValueError if out of range."""
        try:
            # PMO.Context takes an object that represents a queue handle.
            number = value if isinstance(value, int) else index(value)
        except TypeError:
            text = f"{owner}.{self.name} takes an integer, not {type(value).__name__}"
            raise TypeError(text) from None
        low, high = _NUMBER_RANGES[self.code]
        if not low <= number <= high:
            raise ValueError(f"{owner}.{self.name} {number} is not within {low} .. {high}")
        return number


def _member(field: Field, initial: Mapping[str, FieldValue]) -> _Member:
    """Return the pymqi field for a field of a layout.

    ``initial`` has pymqi's initial values where they differ. A byte with a number as initial value
    becomes a number.
    """
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


class _Listed:
    """The fields of a structure that a program defines by a list, in the order of the list.

    An entry is ``[name, initial value, struct code]``, with a count as fourth for a field that is
    repeated; the initial value of such a field is a list. Numbers are native, aligned as in C.
    """

    def __init__(self, entries: Iterable[Sequence[Any]]) -> None:
        """Take the entries; raises struct.error for a code that Python's struct does not know."""
        self.initial: Fields = {}
        self._codes: dict[str, tuple[str, int]] = {}
        for name, initial, code, *count in entries:
            self.initial[name] = initial
            self._codes[name] = (code, count[0] if count else 1)
        self.codec = struct.Struct("".join(code * count for code, count in self._codes.values()))

    def pack(self, fields: Fields) -> bytes:
        """Return the structure as bytes.

        Raises struct.error for a value that does not fit its code.
        """
        values: list[object] = []
        for name in self._codes:
            value = fields[name]
            values += value if isinstance(value, list) else [value]
        return self.codec.pack(*values)

    def unpack(self, buff: bytes) -> Fields:
        """Return the fields of a packed structure; NULs are read behind the end of ``buff``.

        Raises struct.error for a longer buffer.
        """
        found = iter(self.codec.unpack(buff.ljust(self.codec.size, b"\0")))
        return {
            name: [next(found) for _ in range(count)]
            if isinstance(self.initial[name], list)
            else next(found)
            for name, (_code, count) in self._codes.items()
        }


class MQOpts:
    """A structure of the MQI: ``md.Expiry``, ``md["Expiry"]``, ``MD(Expiry=600)``, ``md.get()``.

    An assignment is checked: AttributeError for an unknown field, TypeError for a value of the
    wrong type, ValueError for one out of range or too long. Text is encoded as UTF-8. The fields
    are in ``vars()``, where verbs read and write them without these checks.

    A program defines a structure of its own by a subclass that hands a list of its fields to
    ``__init__``, as in pymqi: ``super().__init__(([name, initial value, struct code], …), **kw)``.
    Its values are checked when it is packed.
    """

    #: The fields by list of one that a program defines; in ``vars()`` of the instance.
    _listed: _Listed | None = None
    members: ClassVar[dict[str, _Member]] = {}
    _initial: ClassVar[dict[str, FieldValue]] = {}
    _codec: ClassVar[struct.Struct] = struct.Struct("")

    def __init_subclass__(
        cls,
        layout: Layout | None = None,
        initial: Mapping[str, FieldValue] | None = None,
        fields: Sequence[Field] = (),
    ) -> None:
        """Build the class from a layout; ``initial`` has pymqi's initial values where they differ.

        ``fields`` stand in place of a layout in a structure that has no StrucId. A class without
        both is a common base class.
        """
        if layout is not None:
            fields = layout.fields
        if not fields:
            return
        made = [_member(field, {} if initial is None else initial) for field in fields]
        # The gap at the end of a structure is a field in pymqi, those inside are alignment.
        inside = {place for place, field in enumerate(fields[:-1]) if not field.name}
        named = [member for place, member in enumerate(made) if place not in inside]
        cls.members = {member.name: member for member in named}
        cls._initial = {member.name: member.initial for member in named}
        codes = [fields[n].code if n in inside else made[n].code for n in range(len(fields))]
        cls._codec = struct.Struct("<" + "".join(codes))

    def __init__(self, memlist: Iterable[Sequence[Any]] | None = None, /, **kw: object) -> None:
        """Set initial values, then the fields that ``kw`` names.

        ``memlist`` are the fields of a structure that a program defines. Raises AttributeError for
        an unknown field, TypeError for a wrong type, ValueError for a value out of range or too
        long.
        """
        if memlist is None:
            object.__setattr__(self, "__dict__", self._initial.copy())
        else:
            listed = _Listed(memlist)
            vars(self).update(listed.initial, _listed=listed)
        if kw:
            self.set(**kw)

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Inform type checkers that fields are attributes."""

    @property
    def _StrucId(self) -> bytes:
        """The field StrucId, by its name in ibmmq."""
        found: bytes = self["StrucId"]
        return found

    def __setattr__(self, name: str, value: object) -> None:
        name = _IN_IBMMQ.get(name, name)
        if self.members:
            value = self._member(name).checked(type(self).__name__, value)
        vars(self)[name] = value

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"{type(self).__name__}.{name} cannot be deleted")

    def __getitem__(self, key: str) -> Any:
        key = _IN_IBMMQ.get(key, key)
        if key not in vars(self):
            raise self._unknown(key)
        return vars(self)[key]

    def __setitem__(self, key: str, value: object) -> None:
        self.set(**{key: value})

    def set(self, **kw: object) -> None:
        """Set fields by name; if one is wrong, none is set.

        Raises AttributeError for an unknown field, TypeError for a wrong type, ValueError for a
        value out of range or too long.
        """
        owner = type(self).__name__
        given: Fields = {}
        for key, value in kw.items():
            name = _IN_IBMMQ.get(key, key)
            if self._listed is None:
                given[name] = self._member(name).checked(owner, value)
            elif name in vars(self):
                given[name] = value.encode() if isinstance(value, str) else value
            else:
                raise self._unknown(name)
        vars(self).update(given)

    def get(self) -> dict[str, FieldValue]:
        """Return the fields as a new dictionary of value by name."""
        if self._listed is not None:
            return {name: vars(self)[name] for name in self._listed.initial}
        return dict(vars(self))

    def pack(self) -> bytes:
        """Return the structure as bytes, with the fields of its newest version."""
        if self._listed is not None:
            return self._listed.pack(vars(self))
        return self._codec.pack(*(vars(self)[name] for name in self.members))

    def unpack(self, buff: bytes) -> None:
        """Set the fields from a packed structure; raises ValueError for a wrong length."""
        if self._listed is not None:
            vars(self).update(self._listed.unpack(buff))
            return
        if len(buff) != self._codec.size:
            raise ValueError(f"{type(self).__name__} has {self._codec.size} bytes, not {len(buff)}")
        vars(self).update(zip(self.members, self._codec.unpack(buff), strict=True))

    def to_string(self, encoding: str = "utf8") -> Self:
        """Replace texts by str, without blanks and NULs at their end; return the structure itself.

        Identifiers, and bytes that are no text in ``encoding``, stay bytes.
        """
        for name, value in self.get().items():
            if isinstance(value, bytes) and name not in _IDENTIFIERS:
                vars(self)[name] = to_string(value, encoding)
        return self

    def get_length(self) -> int:
        """Return the length of the packed structure in bytes."""
        return (self._codec if self._listed is None else self._listed.codec).size

    def set_vs(
        self,
        vs_name: str,
        vs_value: str | bytes | None = None,
        vs_offset: int = 0,
        vs_buffer_size: int = 0,
        vs_ccsid: int = 0,
    ) -> None:
        """Set a variable-length string, such as ObjectString, to bytes, or text as UTF-8.

        None clears it. ``vs_buffer_size`` is how many bytes a verb may return in it. ``vs_offset``
        and ``vs_ccsid`` only set VSOffset and VSCCSID: verbs refuse an offset other than 0, and
        read the string as UTF-8 always. Raises TypeError for another value, AttributeError if the
        structure has no such string.
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
        """Return a variable-length string as bytes, up to its first NUL; None when it is not set.

        Raises AttributeError if the structure has no such string.
        """
        pointer = self[f"{vs_name.removesuffix('VSPtr')}VSPtr"]
        if not isinstance(pointer, StringPointer):
            return None
        return pointer.target.partition(b"\0")[0]

    def __str__(self) -> str:
        return "\n".join(f"{name}: {value!r}" for name, value in self.get().items())

    def __repr__(self) -> str:
        initial = self._initial if self._listed is None else self._listed.initial
        changed = (f"{n}={v!r}" for n, v in self.get().items() if v != initial[n])
        return f"{type(self).__name__}({', '.join(changed)})"

    @classmethod
    def _ordered(cls, order: str) -> struct.Struct:
        """Return the struct format of the fields without gaps; ``<`` or ``>`` is the byte order."""
        return struct.Struct(order + "".join(member.code for member in cls.members.values()))

    def _member(self, name: str) -> _Member:
        """Return the definition of a field; raises AttributeError for an unknown one."""
        member = self.members.get(name)
        if member is None:
            raise self._unknown(name)
        return member

    def _unknown(self, name: str) -> AttributeError:
        """Return (not raise) the error for an unknown field; it names one that is spelt alike."""
        text = f"{type(self).__name__} has no field {name!r}"
        alike = get_close_matches(name, vars(self), n=1)
        return AttributeError(text + (f": did you mean {alike[0]}?" if alike else ""))


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
    """The result of MQSTAT, MQSTS; in ibmmq but not in pymqi."""


class CMHO(MQOpts, layout=structures.CMHO):
    """The options of a new message handle, MQCMHO."""


class DMHO(MQOpts, layout=structures.DMHO):
    """The options of deleting a message handle, MQDMHO."""


class PD(MQOpts, layout=structures.PD):
    """The descriptor of a property, MQPD."""


class SMPO(MQOpts, layout=structures.SMPO):
    """The options of setting a property, MQSMPO."""


class IMPO(MQOpts, layout=structures.IMPO):
    """The options of inquiring a property, MQIMPO."""


class DMPO(MQOpts, layout=structures.DMPO):
    """The options of deleting a property, MQDMPO."""
