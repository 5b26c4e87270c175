"""The memory of a C program: numbers, bytes, and structures of the MQI that verbs change.

An address is a number; 0 is NULL. As in C, an address that leads elsewhere ends the process.
"""

from __future__ import annotations

import struct
from ctypes import memmove, string_at
from operator import itemgetter
from typing import Any, Final, Generic, NamedTuple, TypeVar

from mayfly.mqi import structures
from mayfly.mqi.errors import mq_error
from mayfly.mqi.layout import Layout
from mayfly.pymqi.structures import (
    CMHO,
    DMHO,
    DMPO,
    GMO,
    IMPO,
    MD,
    NULL_TERMINATED,
    OD,
    PD,
    PMO,
    SD,
    SMPO,
    SRO,
    STS,
    MQOpts,
    StringPointer,
)

S = TypeVar("S", bound=MQOpts)

#: The layouts of the structures that programs hand to verbs.
LAYOUTS: Final[dict[type[MQOpts], Layout]] = {
    MD: structures.MD,
    OD: structures.OD,
    GMO: structures.GMO,
    PMO: structures.PMO,
    SD: structures.SD,
    SRO: structures.SRO,
    STS: structures.STS,
    CMHO: structures.CMHO,
    DMHO: structures.DMHO,
    SMPO: structures.SMPO,
    IMPO: structures.IMPO,
    DMPO: structures.DMPO,
    PD: structures.PD,
}


#: The forms of numbers by their lengths in bytes.
_NUMBERS: Final = {4: struct.Struct("<i"), 8: struct.Struct("<q")}


def read_number(address: int, length: int = 4) -> int:
    """Return the signed number at an address; ``length`` is its size, 4 or 8 bytes."""
    found: int = _NUMBERS[length].unpack(string_at(address, length))[0]
    return found


def write_number(address: int, value: int, length: int = 4) -> None:
    """Write a signed number of ``length`` bytes; nothing at NULL."""
    if address:
        memmove(address, value.to_bytes(length, "little", signed=True), length)


def write_bytes(address: int, data: bytes) -> None:
    """Write bytes; nothing at NULL."""
    if address and data:
        memmove(address, data, len(data))


def read_name(address: int, length: int) -> str:
    """Return a name of at most ``length`` bytes, padded with blanks or ended by NUL; "" at NULL."""
    if not address:
        return ""
    # Byte by byte: a name that ends with a NUL may be in a buffer of that length.
    raw = b""
    while len(raw) < length and (each := string_at(address + len(raw), 1)) != b"\0":
        raw += each
    return raw.rstrip(b" ").decode("utf-8", "replace")


class VariableString(NamedTuple):
    """An MQCHARV as the program has it, and the address of its string, 0 without one."""

    pointer: int
    offset: int
    buffer_bytes: int
    length: int
    address: int


class _VersionForm:
    """One version of a structure: its length in bytes, its fields in order, and their codec."""

    def __init__(self, kind: type[MQOpts], layout: Layout, version: int) -> None:
        """Take the fields of a layout up to the end of a version."""
        self.length = layout.length(version)
        new = kind().get()
        codes, names, end = "<", [], 0
        for field in layout.fields:
            if end < self.length:
                end += field.length
                name = field.name.replace(".", "")
                # pymqi has single characters as numbers.
                codes += "b" if field.length == 1 and isinstance(new[name], int) else field.code
                names += [name] if name else []
        self.names: Final = tuple(names)
        self.codec: Final = struct.Struct(codes)
        self.values: Final = itemgetter(*names)
        self.strings: Final = [
            name.removesuffix("VSPtr") for name in names if name.endswith("VSPtr")
        ]


#: The form of each version by the first 8 bytes of a structure: StrucId and Version.
_FORMS: Final[dict[type[MQOpts], dict[bytes, _VersionForm]]] = {
    kind: {
        layout.struc_id + version.to_bytes(4, "little"): _VersionForm(kind, layout, version)
        for version in layout.versions
    }
    for kind, layout in LAYOUTS.items()
}


def read_structure(kind: type[MQOpts], address: int) -> bytes:
    """Return the bytes of a structure, as many as its version has.

    Raises the reason code of its kind for NULL, another StrucId or Version.
    """
    head = string_at(address, 8) if address else b""
    form = _FORMS[kind].get(head)
    if form is None:
        layout = LAYOUTS[kind]
        raise mq_error(layout.reason, f"{layout.name} begins with {head!r}")
    return string_at(address, form.length)


def unpacked(kind: type[S], raw: bytes) -> S:
    """Return the structure of these bytes; fields that its version lacks have initial values."""
    form = _FORMS[kind][raw[:8]]
    value = kind()
    vars(value).update(zip(form.names, form.codec.unpack(raw), strict=True))
    return value


def packed(value: MQOpts) -> bytes:
    """Return a structure with a right StrucId and Version as bytes, as many as its version has."""
    fields = vars(value)
    form = _FORMS[type(value)][fields["StrucId"] + fields["Version"].to_bytes(4, "little")]
    return form.codec.pack(*form.values(fields))


class InMemory(Generic[S]):
    """A structure that a verb reads from the memory of the program, and returns changed.

    ``value`` has the fields; those that the version of the program's structure lacks have their
    initial values.
    """

    __slots__ = ("_address", "_form", "_given", "value")

    def __init__(self, kind: type[S], address: int) -> None:
        """Read a structure; raises its reason code for NULL, another StrucId or Version."""
        raw = read_structure(kind, address)
        self.value = unpacked(kind, raw)
        self._address, self._form = address, _FORMS[kind][raw[:8]]
        fields = vars(self.value)
        #: The strings as the program has them, and what their pointers were replaced by.
        self._given: dict[str, tuple[VariableString, object]] = {}
        for name in self._form.strings:
            self._read_string(fields, name)

    def _read_string(self, fields: dict[str, Any], name: str) -> None:
        """Put what an MQCHARV leads to in the place of its pointer."""
        given = variable_string(fields, name, self._address)
        if given.length == 0:
            fields[f"{name}VSPtr"] = 0
        elif given.address and given.length >= NULL_TERMINATED:
            fields[f"{name}VSPtr"] = StringPointer(string_of(given))
        fields[f"{name}VSOffset"] = 0
        self._given[name] = given, fields[f"{name}VSPtr"]

    def write_back(self) -> None:
        """Write the fields to the program, and returned strings into its buffers."""
        fields = vars(self.value)
        for name, (given, replaced) in self._given.items():
            found = fields[f"{name}VSPtr"]
            if found is not replaced and isinstance(found, StringPointer):
                write_bytes(given.address, found.target)
            else:
                fields[f"{name}VSLength"] = given.length
            fields[f"{name}VSPtr"], fields[f"{name}VSOffset"] = given.pointer, given.offset
        memmove(self._address, self._form.codec.pack(*self._form.values(fields)), self._form.length)


def variable_string(fields: dict[str, Any], name: str, address: int) -> VariableString:
    """Return an MQCHARV among the fields of a structure that is at an address."""
    pointer, offset = fields[f"{name}VSPtr"], fields[f"{name}VSOffset"]
    at = pointer or (address + offset if offset else 0)
    return VariableString(
        pointer, offset, fields[f"{name}VSBufSize"], fields[f"{name}VSLength"], at
    )


def string_of(given: VariableString) -> bytes:
    """Return the string of an MQCHARV: up to its first NUL, or of its length."""
    if not given.address or given.length < NULL_TERMINATED:
        return b""
    if given.length == NULL_TERMINATED:
        return string_at(given.address)
    return string_at(given.address, given.length)


def read_charv(address: int) -> bytes | None:
    """Return the string of an MQCHARV at an address; None for NULL or a wrong length."""
    if not address:
        return None
    fields = {
        "VSPtr": read_number(address, 8),
        "VSOffset": read_number(address + 8),
        "VSBufSize": read_number(address + 12),
        "VSLength": read_number(address + 16),
    }
    given = variable_string(fields, "", address)
    return None if given.length < NULL_TERMINATED else string_of(given)
