"""Layouts: tables of fields that pack a mapping into the bytes of an MQ structure, and back.

Offsets follow from the lengths of the fields in their order; padding is a field (`gap`), so that
nothing depends on a compiler's alignment. Texts are UTF-8. Bytes that are not valid UTF-8, and
texts whose UTF-8 is too long for their field, are Latin-1: reading never fails, and what was read
can be written again.
"""

import struct
from collections.abc import Iterable, Mapping
from typing import Literal, NamedTuple

from mayfly.mqi.constants import MQENC_INTEGER_MASK, MQENC_INTEGER_NORMAL
from mayfly.mqi.errors import MQError, mq_error

Kind = Literal["char", "byte", "i32", "i64", "ptr", "gap"]
Value = int | str | bytes

_NUMBER_CODES = {"i32": "i", "i64": "q", "ptr": "Q"}
_LENGTHS = {"i32": 4, "i64": 8, "ptr": 8}


class Field(NamedTuple):
    """One field of a structure; ``length`` in bytes, ``initial`` for a field that is not set."""

    name: str
    kind: Kind
    length: int
    initial: Value

    @property
    def code(self) -> str:
        """The field in the format language of the struct module."""
        if self.kind == "gap":
            return f"{self.length}x"
        return _NUMBER_CODES.get(self.kind, f"{self.length}s")


def char(name: str, length: int, initial: str = "") -> Field:
    """Return a text field, ``length`` bytes long, padded with blanks, with this initial text."""
    return Field(name, "char", length, initial)


def byte(name: str, length: int) -> Field:
    """Return a field of bytes, padded with NUL; its initial value is all zeros."""
    return Field(name, "byte", length, bytes(length))


def number(name: str, initial: int = 0, kind: Literal["i32", "i64", "ptr"] = "i32") -> Field:
    """Return a number field: 4 bytes for ``kind`` i32, 8 bytes for i64 and ptr (a pointer).

    ``initial`` is its initial value.
    """
    return Field(name, kind, _LENGTHS[kind], initial)


def gap(length: int) -> Field:
    """Return a padding field, written as zeros and never read."""
    return Field("", "gap", length, 0)


def int_in(fields: Mapping[str, Value], name: str) -> int:
    """Return the int field ``name`` from the fields of `Layout.unpack`.

    Raises KeyError for an unknown name, AssertionError if the value is no int.
    """
    value = fields[name]
    assert isinstance(value, int)
    return value


def bytes_in(fields: Mapping[str, Value], name: str) -> bytes:
    """Return the bytes field ``name`` from the fields of `Layout.unpack`.

    Raises KeyError for an unknown name, AssertionError if the value is no bytes.
    """
    value = fields[name]
    assert isinstance(value, bytes)
    return value


def is_big_endian(encoding: int) -> bool:
    """Return True if an MQMD Encoding says that integers have their high byte first."""
    return encoding & MQENC_INTEGER_MASK == MQENC_INTEGER_NORMAL


def encoded(text: str, length: int) -> bytes:
    """Return text as UTF-8, or as Latin-1 if only that fits a field of ``length`` bytes.

    The result is longer than ``length`` if neither fits.
    """
    raw = text.encode()
    if len(raw) > length and not text.isascii():
        latin = text.encode("latin-1", "replace")
        raw = latin if _text_of(latin) == text else raw
    return raw


def _bytes_of_text(field: Field, value: object) -> bytes:
    """Return a str or bytes as the bytes of a text field, padded with blanks.

    Raises TypeError for another type, ValueError when it is too long.
    """
    if isinstance(value, str):
        raw = encoded(value, field.length)
    elif isinstance(value, (bytes, bytearray)):
        raw = bytes(value)
    else:
        raise TypeError(f"{field.name} {value!r} is neither str nor bytes")
    if len(raw) > field.length:
        raise ValueError(f"{field.name} {value!r} is longer than {field.length} bytes")
    return raw.ljust(field.length)


def _text_of(raw: bytes) -> str:
    """Return the bytes of a field as text without padding, UTF-8 or else Latin-1."""
    text = raw.partition(b"\0")[0].rstrip(b" ")
    try:
        return text.decode()
    except UnicodeDecodeError:
        return text.decode("latin-1")


def _bytes_of(field: Field, value: object) -> bytes:
    """Return the value of a bytes field as bytes, not padded.

    Raises TypeError for another type than bytes, ValueError when it is too long.
    """
    if not isinstance(value, (bytes, bytearray)):
        raise TypeError(f"{field.name} {value!r} is not bytes")
    if len(value) > field.length:
        raise ValueError(f"{field.name} {bytes(value)!r} is longer than {field.length} bytes")
    return bytes(value)


class _Form:
    """The fields of one version of a structure, with their struct objects for both byte orders."""

    __slots__ = ("big", "fields", "length", "little", "readers", "template")

    def __init__(self, fields: Iterable[Field], length: int) -> None:
        """Take the first fields, up to ``length`` bytes; ValueError if no field ends there."""
        cut: list[Field] = []
        end = 0
        for field in fields:
            if end < length:
                cut.append(field)
                end += field.length
        if end != length:
            raise ValueError(f"fields end at {end}, not at {length}")
        codes = "".join(field.code for field in cut)
        self.length = length
        self.little = struct.Struct("<" + codes)
        self.big = struct.Struct(">" + codes)
        self.fields = [field for field in cut if field.kind != "gap"]
        self.readers = [(field.name, field.kind == "char") for field in self.fields]
        #: The initial values as struct takes them; packing copies them and fills in given values.
        self.template = [
            _bytes_of_text(field, field.initial) if field.kind == "char" else field.initial
            for field in self.fields
        ]

    def codec(self, big_endian: bool) -> struct.Struct:
        """Return the struct object for a byte order."""
        return self.big if big_endian else self.little


class Layout:
    """An MQ structure: its fields in order, and the length of each of its versions.

    ``versions`` maps a Version to its length in bytes. ``reason`` is the reason code of the error
    that `unpack` raises for data that is no such structure.
    """

    def __init__(
        self, name: str, fields: Iterable[Field], *, versions: Mapping[int, int], reason: int
    ) -> None:
        """Create the layout of a structure; the first field is StrucId, the second Version.

        ``versions`` maps each Version to its length in bytes. Raises ValueError when no field ends
        at such a length. ``reason`` is the reason code for data of another form.
        """
        self.name = name
        self.fields = tuple(fields)
        self.reason = reason
        self.struc_id = _bytes_of_text(self.fields[0], self.fields[0].initial)
        self._forms = {version: _Form(self.fields, end) for version, end in versions.items()}
        self._newest = self._forms[max(versions)]
        self._index = {field.name: at for at, field in enumerate(self._newest.fields)}
        self._offsets = self._find_offsets()

    def _find_offsets(self) -> dict[str, int]:
        """Return the offset in bytes of each field, by name."""
        offsets: dict[str, int] = {}
        offset = 0
        for field in self.fields:
            if field.kind != "gap":
                offsets[field.name] = offset
            offset += field.length
        return offsets

    def __repr__(self) -> str:
        return f"<Layout {self.name} {self._newest.length}>"

    @property
    def versions(self) -> tuple[int, ...]:
        """The versions that this layout has, oldest first."""
        return tuple(sorted(self._forms))

    def length(self, version: int) -> int:
        """Return the length of a version in bytes; raises KeyError for an unknown version."""
        return self._forms[version].length

    def offset_of(self, field: str) -> int:
        """Return the offset of a field in bytes; raises KeyError for an unknown field."""
        return self._offsets[field]

    def initial(self) -> dict[str, Value]:
        """Return the initial values of the newest version's fields, as `unpack` returns them."""
        return {
            field.name: field.initial.rstrip() if isinstance(field.initial, str) else field.initial
            for field in self._newest.fields
        }

    def pack(
        self, values: Mapping[str, object], *, version: int | None = None, big_endian: bool = False
    ) -> bytes:
        """Return the structure as bytes; fields not in ``values`` have their initial value.

        ``version`` sets how many fields are written; None means the Version in ``values`` or its
        initial value. With ``big_endian`` numbers have the high byte first.

        Raises KeyError for an unknown field name, TypeError for a value of the wrong type. Raises
        ValueError for an unknown version, and for a value that does not fit its field or belongs to
        a later version. All name the field.
        """
        form = self._form_to_write(values, version)
        row = form.template.copy()
        if version is not None and isinstance(row[1], int):
            row[1] = version
        for name, value in values.items():
            at = self._index[name]
            given = _to_struct(self._newest.fields[at], value)
            if at < len(row):
                row[at] = given
            elif given != self._newest.template[at]:
                raise ValueError(f"{name} {value!r} needs a later version of {self.name}")
        try:
            return form.codec(big_endian).pack(*row)
        except struct.error as error:
            raise ValueError(f"{self.name}: {_first_misfit(form, row)}") from error

    def _form_to_write(self, values: Mapping[str, object], version: int | None) -> _Form:
        """Return the field table of ``version``; for None, of the Version in ``values``.

        Raises ValueError for an unknown version.
        """
        wanted = values.get("Version", self.fields[1].initial) if version is None else version
        form = self._forms.get(_version_number(wanted))
        if form is None:
            raise ValueError(f"Version {wanted!r} of {self.name} does not exist")
        return form

    def unpack(
        self,
        data: bytes | bytearray | memoryview,
        *,
        version: int | None = None,
        big_endian: bool = False,
        text_codec: str | None = None,
    ) -> dict[str, Value]:
        """Return the fields at the start of ``data``: numbers, texts without padding, and bytes.

        ``version`` sets how many fields are read; None means the Version in ``data``.
        With ``big_endian`` numbers have the high byte first. Bytes after the structure are ignored.
        ``text_codec`` is for texts in a character set without ASCII, StrucId included; None reads
        UTF-8 or Latin-1.

        Raises the reason code of the layout, such as MQRC_DLH_ERROR, for a wrong StrucId, an
        unknown Version, data that is too short, or texts that are not in their character set.
        """
        form = self._form_to_read(data, version, big_endian, text_codec)
        row = form.codec(big_endian).unpack_from(data)
        return {
            name: self._text_in(value, text_codec) if is_text else value
            for (name, is_text), value in zip(form.readers, row, strict=True)
        }

    def _text_in(self, raw: bytes, codec: str | None) -> str:
        """Return the bytes of a text field as text without padding.

        With a codec, raises the error of the structure for bytes that it cannot decode.
        """
        if codec is None:
            return _text_of(raw)
        try:
            return raw.decode(codec).partition("\0")[0].rstrip(" ")
        except UnicodeDecodeError as error:
            raise self._error(str(error)) from None

    def _form_to_read(
        self,
        data: bytes | bytearray | memoryview,
        version: int | None,
        big_endian: bool,
        text_codec: str | None,
    ) -> _Form:
        """Return the field table for the version that ``data`` has, or for ``version`` if set.

        ``big_endian`` and ``text_codec`` are those of :meth:`unpack`. Raises the error of the
        structure for a wrong StrucId, Version or length.
        """
        if len(data) < 8:
            raise self._error(f"{len(data)} bytes are too short")
        struc_id = bytes(data[:4])
        if text_codec is not None:
            struc_id = struc_id.decode(text_codec, "replace").encode("ascii", "replace")
        if struc_id != self.struc_id:
            raise self._error(f"StrucId {struc_id!r} is not {self.struc_id!r}")
        found: Value = bytes(data[4:8])
        if self.fields[1].kind == "i32":
            found = int.from_bytes(data[4:8], "big" if big_endian else "little", signed=True)
        form = self._forms.get(_version_number(found))
        if form is None:
            raise self._error(f"Version {found!r} does not exist")
        if version is not None:
            form = self._forms[version]
        if len(data) < form.length:
            raise self._error(f"{len(data)} bytes are shorter than {form.length}")
        return form

    def _error(self, detail: str) -> MQError:
        """Return the error of the structure, with its name before ``detail``."""
        return mq_error(self.reason, f"{self.name} {detail}")


def _to_struct(field: Field, value: object) -> int | bytes:
    """Return a value of a field as the struct module takes it; struct checks ranges of numbers.

    Raises TypeError for a wrong type, ValueError for text or bytes that are too long.
    """
    if field.kind == "char":
        return _bytes_of_text(field, value)
    if field.kind == "byte":
        return _bytes_of(field, value)
    if not isinstance(value, int):
        raise TypeError(f"{field.name} {value!r} is not an integer")
    return value


def _version_number(value: object) -> int:
    """Return a Version as a number: 2 -> 2, the text ``"   2"`` of MQTMC2 -> 2; -1 if invalid."""
    if isinstance(value, int):
        return value
    text = _text_of(value) if isinstance(value, bytes) else str(value)
    return int(text) if len(text) == 4 and text.strip().isdecimal() and text.isascii() else -1


def _first_misfit(form: _Form, row: list[int | bytes] | list[Value]) -> str:
    """Return an error text about the first number in a row that does not fit its field."""
    for field, value in zip(form.fields, row, strict=True):
        try:
            struct.pack("<" + field.code, value)
        except struct.error:
            return f"{field.name} {value!r} does not fit {field.length} bytes"
    return "a value does not fit its field"
