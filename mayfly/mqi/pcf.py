"""PCF messages: a header (MQCFH) and structures, packed to bytes and unpacked, in both byte orders.

A structure is one of MQCFIN, MQCFIN64, MQCFIL, MQCFIL64, MQCFST, MQCFSL, MQCFBS, MQCFGR, MQCFIF,
MQCFSF and MQCFBF. The byte order is that of MQMD.Encoding. Source: "Structures for commands and
responses" of the PCF reference.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple, TypeAlias

from mayfly.mqi import command_constants as k
from mayfly.mqi.code_pages import codec_name
from mayfly.mqi.constants import MQCC_OK, MQCCSI_DEFAULT, MQENC_NATIVE
from mayfly.mqi.errors import OptionsError
from mayfly.mqi.reasons import MQRC_NONE, reason_name

#: The value of a structure: a number, bytes (text too), several of one of them, or the members of
#: a group.
PcfValue: TypeAlias = "int | bytes | tuple[int, ...] | tuple[bytes, ...] | tuple[Structure, ...]"

_HEADER_BYTES: Final = 36
_VERSIONS: Final = range(k.MQCFH_VERSION_1, k.MQCFH_VERSION_3 + 1)
#: Groups in groups, at most: of the structures of IBM MQ none goes deeper than three.
_MAX_DEPTH: Final = 16
#: Texts without a byte cost nothing in a message, so their number is bounded by itself.
_MAX_EMPTY_TEXTS: Final = 256
_ALIGNMENT: Final = 4
_NUMBER_MIN, _NUMBER_MAX = -(2**31), 2**31 - 1
_REASON_NAMES: Final = {
    value: name
    for name, value in vars(k).items()
    if name.startswith("MQRCCF_") and isinstance(value, int)
}


class PcfError(OptionsError):
    """A PCF message is malformed, or a parameter of a command is wrong.

    The reason is MQRCCF_*, or MQRC_* for an object that does not exist. ``parameter`` is the number
    of the wrong parameter (MQIA_* and so on), 0 for none.
    """

    def __init__(self, reason: int, detail: str, parameter: int = 0) -> None:
        """Store the reason code, the text of the error, and the wrong parameter."""
        super().__init__(reason, detail)
        self.parameter = parameter

    def __str__(self) -> str:
        """Return name and number of the reason code, and the text."""
        name = _REASON_NAMES.get(self.reason) or reason_name(self.reason)
        return f"{name} ({self.reason}): {self.detail}"


class Header(NamedTuple):
    """The header of a PCF message, MQCFH, 36 bytes.

    ``type`` is MQCFT_*, ``command`` MQCMD_*. ``control`` is MQCFC_LAST in the last message of an
    answer. ``parameter_count`` counts structures; those in a group are counted by the group.
    """

    type: int
    command: int
    version: int = k.MQCFH_VERSION_1
    sequence_number: int = 1
    control: int = k.MQCFC_LAST
    comp: int = MQCC_OK
    reason: int = MQRC_NONE
    parameter_count: int = 0


class Structure(NamedTuple):
    """One structure of a PCF message; ``type`` is MQCFT_* and ``parameter`` its number.

    ``operator`` (MQCFOP_*) is that of a filter. ``ccsid`` is the character set of a text, 0 for
    that of the message.
    """

    type: int
    parameter: int
    value: PcfValue
    operator: int = 0
    ccsid: int = MQCCSI_DEFAULT

    def text(self, message_ccsid: int = 0) -> str:
        """Return the value of a text as str, without the blanks and NULs at its end.

        ``message_ccsid`` is the character set of the message. Raises PcfError (MQRCCF_CCSID_ERROR)
        for an unknown character set, and for bytes that are not of it.
        """
        assert isinstance(self.value, bytes)
        return _decoded(self, self.value, message_ccsid)

    def texts(self, message_ccsid: int = 0) -> list[str]:
        """Return the values of a list of texts, as :meth:`text` does."""
        assert isinstance(self.value, tuple)
        raws = [each for each in self.value if isinstance(each, bytes)]
        return [_decoded(self, each, message_ccsid) for each in raws]


class PcfMessage(NamedTuple):
    """A PCF message: its header and its structures, groups with their members."""

    header: Header
    structures: tuple[Structure, ...]


def _decoded(structure: Structure, raw: bytes, message_ccsid: int) -> str:
    """Return a text of a structure as str; see :meth:`Structure.text` for its errors."""
    ccsid = structure.ccsid or message_ccsid
    codec = codec_name(ccsid, MQENC_NATIVE) if ccsid > 0 else "utf-8"
    if codec is None:
        text = f"CodedCharSetId {ccsid} of parameter {structure.parameter} is not known"
        raise PcfError(k.MQRCCF_CCSID_ERROR, text, structure.parameter)
    try:
        return raw.decode(codec).rstrip("\0 ")
    except UnicodeDecodeError as error:
        text = f"parameter {structure.parameter} {raw!r} is not of CodedCharSetId {ccsid}: {error}"
        raise PcfError(k.MQRCCF_CCSID_ERROR, text, structure.parameter) from error


# Structures, made


def integer(parameter: int, value: int) -> Structure:
    """Return an MQCFIN, or an MQCFIN64 for a number that needs more than 32 bits."""
    is_small = _NUMBER_MIN <= value <= _NUMBER_MAX
    return Structure(k.MQCFT_INTEGER if is_small else k.MQCFT_INTEGER64, parameter, value)


def integer_list(parameter: int, values: Iterable[int]) -> Structure:
    """Return a parameter with a list of 32-bit numbers (MQCFIL)."""
    return Structure(k.MQCFT_INTEGER_LIST, parameter, tuple(values))


def string(parameter: int, text: str, length: int = 0) -> Structure:
    """Return an MQCFST with a text in UTF-8, padded with blanks to ``length`` bytes."""
    return Structure(k.MQCFT_STRING, parameter, text.encode().ljust(length))


def string_list(parameter: int, texts: Iterable[str], length: int = 0) -> Structure:
    """Return an MQCFSL with texts in UTF-8, each padded with blanks to ``length`` bytes."""
    values = tuple(text.encode().ljust(length) for text in texts)
    return Structure(k.MQCFT_STRING_LIST, parameter, values)


def byte_string(parameter: int, value: bytes) -> Structure:
    """Return a parameter with a byte string (MQCFBS)."""
    return Structure(k.MQCFT_BYTE_STRING, parameter, value)


# Packed


def pack(header: Header, structures: Sequence[Structure], *, big_endian: bool = False) -> bytes:
    """Return a PCF message as bytes; the parameter count is that of ``structures``.

    With ``big_endian`` numbers are MQENC_INTEGER_NORMAL, else reversed. Raises PcfError for a value
    that its structure cannot hold.
    """
    order = ">" if big_endian else "<"
    fields = (
        header.type,
        _HEADER_BYTES,
        header.version,
        header.command,
        header.sequence_number,
        header.control,
        header.comp,
        header.reason,
        len(structures),
    )
    return struct.pack(f"{order}9i", *fields) + b"".join(
        pack_structure(each, big_endian=big_endian) for each in structures
    )


def pack_structure(structure: Structure, *, big_endian: bool = False) -> bytes:
    """Return a structure as bytes, a group with its members; NULs pad it to a multiple of four.

    Raises PcfError (MQRCCF_PARM_VALUE_ERROR) for a value that it cannot hold, and
    MQRCCF_STRUCTURE_TYPE_ERROR for an unknown type.
    """
    order = ">" if big_endian else "<"
    if structure.type not in _PARTS:
        raise _unknown_type(structure.type)
    try:
        content = _PARTS[structure.type](order, structure)
    except (struct.error, TypeError, AttributeError) as error:
        text = f"parameter {structure.parameter}: {structure.value!r}: {error}"
        raise PcfError(k.MQRCCF_PARM_VALUE_ERROR, text, structure.parameter) from error
    padding = -len(content) % _ALIGNMENT
    length = 8 + len(content) + padding
    packed = struct.pack(f"{order}2i", structure.type, length) + content + bytes(padding)
    if structure.type != k.MQCFT_GROUP:
        return packed
    return packed + b"".join(
        pack_structure(each, big_endian=big_endian) for each in _members(structure)
    )


def _members(group: Structure) -> list[Structure]:
    """Return the members of a group."""
    assert isinstance(group.value, tuple)
    return [each for each in group.value if isinstance(each, Structure)]


def _number(order: str, s: Structure) -> bytes:
    """Return the content of an MQCFIN behind type and length."""
    return struct.pack(f"{order}2i", s.parameter, s.value)


def _number64(order: str, s: Structure) -> bytes:
    """Return the content of an MQCFIN64, which has four reserved bytes before its number."""
    return struct.pack(f"{order}2iq", s.parameter, 0, s.value)


def _numbers(order: str, s: Structure) -> bytes:
    """Return the content of an MQCFIL or MQCFIL64."""
    assert isinstance(s.value, tuple)
    code = "i" if s.type == k.MQCFT_INTEGER_LIST else "q"
    return struct.pack(f"{order}2i{len(s.value)}{code}", s.parameter, len(s.value), *s.value)


def _text(order: str, s: Structure) -> bytes:
    """Return a text (MQCFST) as bytes after type and length; ``order`` is struct's byte order."""
    assert isinstance(s.value, bytes)
    return struct.pack(f"{order}3i", s.parameter, s.ccsid, len(s.value)) + s.value


def _texts(order: str, s: Structure) -> bytes:
    """Return the content of an MQCFSL, whose texts have the length of the longest."""
    assert isinstance(s.value, tuple)
    values = [each for each in s.value if isinstance(each, bytes)]
    length = max(map(len, values), default=0)
    head = struct.pack(f"{order}4i", s.parameter, s.ccsid, len(values), length)
    return head + b"".join(each.ljust(length) for each in values)


def _bytes(order: str, s: Structure) -> bytes:
    """Return a byte string (MQCFBS) as bytes after type and length."""
    assert isinstance(s.value, bytes)
    return struct.pack(f"{order}2i", s.parameter, len(s.value)) + s.value


def _group(order: str, s: Structure) -> bytes:
    """Return the content of an MQCFGR; its members follow the structure."""
    return struct.pack(f"{order}2i", s.parameter, len(_members(s)))


def _number_filter(order: str, s: Structure) -> bytes:
    """Return a filter on a number (MQCFIF) as bytes after type and length."""
    return struct.pack(f"{order}3i", s.parameter, s.operator, s.value)


def _text_filter(order: str, s: Structure) -> bytes:
    """Return a filter on a text (MQCFSF) as bytes after type and length."""
    assert isinstance(s.value, bytes)
    return struct.pack(f"{order}4i", s.parameter, s.operator, s.ccsid, len(s.value)) + s.value


def _bytes_filter(order: str, s: Structure) -> bytes:
    """Return a filter on a byte string (MQCFBF) as bytes after type and length."""
    assert isinstance(s.value, bytes)
    return struct.pack(f"{order}3i", s.parameter, s.operator, len(s.value)) + s.value


#: The content of a structure behind its type and length, by type.
_PARTS: Final = {
    k.MQCFT_INTEGER: _number,
    k.MQCFT_INTEGER64: _number64,
    k.MQCFT_INTEGER_LIST: _numbers,
    k.MQCFT_INTEGER64_LIST: _numbers,
    k.MQCFT_STRING: _text,
    k.MQCFT_STRING_LIST: _texts,
    k.MQCFT_BYTE_STRING: _bytes,
    k.MQCFT_GROUP: _group,
    k.MQCFT_INTEGER_FILTER: _number_filter,
    k.MQCFT_STRING_FILTER: _text_filter,
    k.MQCFT_BYTE_STRING_FILTER: _bytes_filter,
}


# Unpacked


def unpack(data: bytes, *, big_endian: bool = False) -> PcfMessage:
    """Return the PCF message in ``data``, which holds nothing else.

    Raises PcfError: MQRCCF_CFH_* for a wrong header, MQRCCF_PARM_COUNT_TOO_BIG and _TOO_SMALL for
    fewer and more structures than the header counts, MQRCCF_STRUCTURE_TYPE_ERROR, and the reasons
    of single structures such as MQRCCF_CFST_STRING_LENGTH_ERR.
    """
    header = unpack_header(data, big_endian=big_endian)
    reader = _Reader(data, ">" if big_endian else "<")
    structures = reader.read(header.parameter_count, _MAX_DEPTH)
    if reader.offset < len(data):
        left_bytes = len(data) - reader.offset
        text = f"{left_bytes} bytes follow the {header.parameter_count} structures of the header"
        raise PcfError(k.MQRCCF_PARM_COUNT_TOO_SMALL, text)
    return PcfMessage(header, structures)


def unpack_header(data: bytes, *, big_endian: bool = False) -> Header:
    """Return the header of a PCF message, without a look at what follows.

    Raises PcfError: MQRCCF_MSG_LENGTH_ERROR for less than 36 bytes, MQRCCF_CFH_LENGTH_ERROR,
    MQRCCF_CFH_VERSION_ERROR and MQRCCF_CFH_PARM_COUNT_ERROR for a wrong field.
    """
    if len(data) < _HEADER_BYTES:
        text = f"{len(data)} bytes are no PCF message: the header alone has {_HEADER_BYTES}"
        raise PcfError(k.MQRCCF_MSG_LENGTH_ERROR, text)
    kind, length, version, command, sequence, control, comp, reason, count = struct.unpack_from(
        ">9i" if big_endian else "<9i", data
    )
    if length != _HEADER_BYTES:
        text = f"StrucLength {length} of the header is not {_HEADER_BYTES}"
        raise PcfError(k.MQRCCF_CFH_LENGTH_ERROR, text)
    if version not in _VERSIONS:
        raise PcfError(k.MQRCCF_CFH_VERSION_ERROR, f"Version {version} of the header is not 1 to 3")
    if count < 0:
        text = f"ParameterCount {count} of the header is below 0"
        raise PcfError(k.MQRCCF_CFH_PARM_COUNT_ERROR, text)
    return Header(kind, command, version, sequence, control, comp, reason, count)


def is_big_endian_message(data: bytes) -> bool:
    """Return True if the length in a header says that the high byte comes first."""
    return data[4:8] == struct.pack(">i", _HEADER_BYTES)


class _Layout(NamedTuple):
    """How the structures of one type are read: the fields behind type and length, and errors.

    ``codes`` are those of the struct module. ``length_error`` is the reason for a wrong
    StrucLength, ``value_error`` the one for a count or length inside that does not fit.
    """

    codes: str
    length_error: int
    value_error: int = 0


_LAYOUTS: Final = {
    k.MQCFT_INTEGER: _Layout("2i", k.MQRCCF_CFIN_LENGTH_ERROR),
    k.MQCFT_INTEGER64: _Layout("2iq", k.MQRCCF_CFIN_LENGTH_ERROR),
    k.MQCFT_INTEGER_LIST: _Layout("2i", k.MQRCCF_CFIL_LENGTH_ERROR, k.MQRCCF_CFIL_COUNT_ERROR),
    k.MQCFT_INTEGER64_LIST: _Layout("2i", k.MQRCCF_CFIL_LENGTH_ERROR, k.MQRCCF_CFIL_COUNT_ERROR),
    k.MQCFT_STRING: _Layout("3i", k.MQRCCF_CFST_LENGTH_ERROR, k.MQRCCF_CFST_STRING_LENGTH_ERR),
    k.MQCFT_STRING_LIST: _Layout("4i", k.MQRCCF_CFSL_LENGTH_ERROR, k.MQRCCF_CFSL_COUNT_ERROR),
    k.MQCFT_BYTE_STRING: _Layout("2i", k.MQRCCF_CFBS_LENGTH_ERROR, k.MQRCCF_CFBS_STRING_LENGTH_ERR),
    k.MQCFT_GROUP: _Layout("2i", k.MQRCCF_CFGR_LENGTH_ERROR, k.MQRCCF_CFGR_PARM_COUNT_ERROR),
    k.MQCFT_INTEGER_FILTER: _Layout("3i", k.MQRCCF_CFIF_LENGTH_ERROR),
    k.MQCFT_STRING_FILTER: _Layout(
        "4i", k.MQRCCF_CFSF_LENGTH_ERROR, k.MQRCCF_CFSF_FILTER_VAL_LEN_ERR
    ),
    k.MQCFT_BYTE_STRING_FILTER: _Layout(
        "3i", k.MQRCCF_CFBF_LENGTH_ERROR, k.MQRCCF_CFBF_FILTER_VAL_LEN_ERR
    ),
}
#: Types whose StrucLength is always the same.
_OF_ONE_LENGTH: Final = (
    k.MQCFT_INTEGER,
    k.MQCFT_INTEGER64,
    k.MQCFT_INTEGER_FILTER,
    k.MQCFT_GROUP,
)


class _Reader:
    """Reads structures from the bytes of a PCF message; ``offset`` is where the next one begins."""

    def __init__(self, data: bytes, order: str) -> None:
        """Begin behind the header of a message; ``order`` is ``<`` or ``>``."""
        self._data = data
        self._order = order
        self.offset = _HEADER_BYTES

    def read(self, count: int, depth: int) -> tuple[Structure, ...]:
        """Return the next ``count`` structures; groups go ``depth`` levels deep at most.

        Raises PcfError: MQRCCF_PARM_COUNT_TOO_BIG if there are fewer, and the code of a damaged
        one.
        """
        structures = []
        for number in range(count):
            if self.offset >= len(self._data):
                text = f"{count} structures are counted, {number} are there"
                raise PcfError(k.MQRCCF_PARM_COUNT_TOO_BIG, text)
            structures.append(self._next(depth))
        return tuple(structures)

    def _next(self, depth: int) -> Structure:
        """Return the structure at the offset, and move behind it and its members.

        Raises PcfError for a length that is wrong, and for an unknown type.
        """
        start = self.offset
        if len(self._data) - start < 12:
            text = f"{len(self._data) - start} bytes at offset {start} are no structure"
            raise PcfError(k.MQRCCF_MSG_LENGTH_ERROR, text)
        kind, length, parameter = struct.unpack_from(f"{self._order}3i", self._data, start)
        layout = _LAYOUTS.get(kind)
        if layout is None:
            raise _unknown_type(kind)
        fixed = 8 + struct.calcsize(f"={layout.codes}")
        is_exact = kind in _OF_ONE_LENGTH
        if length < fixed or (is_exact and length != fixed) or start + length > len(self._data):
            text = f"StrucLength {length} of parameter {parameter} at offset {start} is wrong"
            raise PcfError(layout.length_error, text, parameter)
        fields = struct.unpack_from(f"{self._order}{layout.codes}", self._data, start + 8)
        rest = self._data[start + fixed : start + length]
        self.offset = start + length
        if kind == k.MQCFT_GROUP:
            return self._group(parameter, fields[1], depth)
        return self._structure(kind, fields, rest)

    def _group(self, parameter: int, count: int, depth: int) -> Structure:
        """Return a group, whose ``count`` members begin at the offset.

        Raises PcfError (MQRCCF_CFGR_PARM_COUNT_ERROR) for a negative count, and for ``depth`` 0.
        """
        if count < 0 or not depth:
            text = f"ParameterCount {count} of group {parameter} is wrong, or it lies too deep"
            raise PcfError(k.MQRCCF_CFGR_PARM_COUNT_ERROR, text, parameter)
        return Structure(k.MQCFT_GROUP, parameter, self.read(count, depth - 1))

    def _structure(self, kind: int, fields: tuple[int, ...], rest: bytes) -> Structure:
        """Return the structure of a type, of its fixed ``fields`` and the bytes behind them.

        Raises PcfError if count or length of its values is wrong.
        """
        parameter = fields[0]
        if kind in (k.MQCFT_INTEGER, k.MQCFT_INTEGER64):
            return Structure(kind, parameter, fields[-1])
        if kind == k.MQCFT_INTEGER_FILTER:
            return Structure(kind, parameter, fields[2], fields[1])
        if kind in (k.MQCFT_INTEGER_LIST, k.MQCFT_INTEGER64_LIST):
            code, size = ("i", 4) if kind == k.MQCFT_INTEGER_LIST else ("q", 8)
            raw = _first(kind, parameter, rest, fields[1], size)
            values = struct.unpack(f"{self._order}{fields[1]}{code}", raw)
            return Structure(kind, parameter, values)
        if kind == k.MQCFT_STRING_LIST:
            _parameter, ccsid, count, length = fields
            if length < 0:
                text = f"StringLength {length} of parameter {parameter} is below 0"
                raise PcfError(k.MQRCCF_CFSL_STRING_LENGTH_ERR, text, parameter)
            if not length and count > _MAX_EMPTY_TEXTS:
                text = f"Count {count} of parameter {parameter}: as many empty texts are refused"
                raise PcfError(k.MQRCCF_CFSL_COUNT_ERROR, text, parameter)
            raw = _first(kind, parameter, rest, count, length)
            texts = tuple(raw[n * length : (n + 1) * length] for n in range(count))
            return Structure(kind, parameter, texts, ccsid=ccsid)
        raw = _first(kind, parameter, rest, fields[-1], 1)
        has_operator = kind in (k.MQCFT_STRING_FILTER, k.MQCFT_BYTE_STRING_FILTER)
        has_ccsid = kind in (k.MQCFT_STRING, k.MQCFT_STRING_FILTER)
        operator = fields[1] if has_operator else 0
        return Structure(kind, parameter, raw, operator, fields[-2] if has_ccsid else 0)


def _first(kind: int, parameter: int, rest: bytes, count: int, size_bytes: int) -> bytes:
    """Return the bytes of ``count`` values of one size, without the padding after them.

    Raises PcfError with the reason of the type for a negative count, or one that does not fit.
    """
    if not 0 <= count * size_bytes <= len(rest) or count < 0:
        text = f"parameter {parameter}: {count} of {size_bytes} bytes are not in {len(rest)} bytes"
        raise PcfError(_LAYOUTS[kind].value_error, text, parameter)
    return rest[: count * size_bytes]


def _unknown_type(kind: int) -> PcfError:
    """Return the error for a type that no structure has."""
    return PcfError(k.MQRCCF_STRUCTURE_TYPE_ERROR, f"Type {kind} is no type of a structure")
