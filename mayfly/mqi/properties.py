"""Message properties in the folders of an MQRFH2: reading and writing their XML.

A folder is one XML element, ``<usr><colour>red</colour><size dt='i4'>42</size></usr>``. A property
has a data type ``dt``: ``string`` (the default, not written), ``boolean``, ``bin.hex``, ``char``,
``i1 i2 i4 i8`` for integers of 1 to 8 bytes, ``r4 r8`` for floats; ``xsi:nil`` is null.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import NamedTuple, TypeAlias

from mayfly.mqi import reasons as rc
from mayfly.mqi.code_pages import codec_name
from mayfly.mqi.constants import MQCCSI_INHERIT, MQENC_NORMAL
from mayfly.mqi.errors import MQError, mq_error
from mayfly.mqi.layout import int_in, is_big_endian
from mayfly.mqi.structures import RFH2

FORMAT = "MQHRF2"
UTF_8 = 1208
Value: TypeAlias = bool | int | float | str | bytes | None
#: The integer types with the bits of their values.
INTEGER_BITS = {"i1": 8, "i2": 16, "i4": 32, "i8": 64}
_FIXED = struct.Struct(">4siiii8sii")
_FIXED_BYTES = 36
_LENGTH_BYTES = 4
_SHORT_TEXT = 256
_CODECS = {1200: "utf-16", 13488: "utf-16", 17584: "utf-16", UTF_8: "utf-8"}
_NOT_PLAIN = re.compile(r"[&<>\"'\x00-\x1f]")
_ENTITY = re.compile(r"&(?:#(x?)([0-9a-fA-F]{1,8})|([a-z]{2,4}));?|&")
_NAMED = {"amp": "&", "lt": "<", "gt": ">", "quot": '"', "apos": "'"}
_ESCAPES = {char: f"&{name};" for name, char in _NAMED.items()}
_TAG = re.compile(
    r"<(?P<end>/?)(?P<name>[^\s<>/='\"]+)"
    r"(?P<attributes>(?:\s+[^\s<>/='\"]+\s*=\s*(?:'[^'<]*'|\"[^\"<]*\"))*)\s*(?P<empty>/?)>"
    r"|(?P<text>[^<]+)"
)
_ATTRIBUTE = re.compile(r"([^\s<>/='\"]+)\s*=\s*(?:'([^'<]*)'|\"([^\"<]*)\")")
_INTEGER = re.compile(r"[+-]?[0-9]{1,20}")
#: A text of the data type ``boolean`` -> its value.
BOOLEANS = {"1": True, "true": True, "0": False, "false": False}


class Typed(NamedTuple):
    """A property value with its data type ``dt``; the value None is null."""

    dt: str
    value: Value


class Element(NamedTuple):
    """One XML element of a folder, as it was read."""

    name: str
    attributes: dict[str, str]
    children: list[Element]
    texts: list[str]

    @property
    def text(self) -> str:
        """The characters directly inside the element, without those of its children."""
        return "".join(self.texts)

    @property
    def is_nil(self) -> bool:
        """Whether the element is null (xsi:nil)."""
        return self.attributes.get("xsi:nil") in ("true", "1")

    def typed(self) -> Typed:
        """Return the element's value and data type, which its XML attribute ``dt`` names.

        The value of a null is None. Raises MQRC_RFH_FORMAT_ERROR when the text is not of that data
        type.
        """
        dt = "i4" if (found := self.attributes.get("dt", "string")) == "int" else found
        if self.is_nil:
            return Typed(dt, None)
        try:
            return Typed(dt, _value_of(dt, self.text))
        except (ValueError, OverflowError):
            raise _wrong(f"{self.name}: {self.text[:40]!r} is not of type {dt}") from None


class Texts(NamedTuple):
    """The folders of one or more consecutive MQRFH2 as XML texts; other fields as in `Header`."""

    folders: list[str]
    data_format: str
    data_encoding: int
    data_coded_char_set_id: int
    data_start: int


class Rfh2Headers(NamedTuple):
    """The content of one or more consecutive MQRFH2, and the format of the data after them.

    ``folders`` has the elements of all folders by folder name; ``data_start`` is the offset of the
    data in bytes.
    """

    folders: dict[str, list[Element]]
    data_format: str
    data_encoding: int
    data_coded_char_set_id: int
    data_start: int


def escape(text: str) -> str:
    """Return text escaped for an XML element or attribute."""
    if _NOT_PLAIN.search(text) is None:
        return text
    return _NOT_PLAIN.sub(_escaped, text)


def format_value(typed: Typed) -> str:
    """Return a value as the XML text between its tags: True -> ``1``, the byte 171 -> ``AB``.

    ``typed`` is the value with its data type. The value must not be null.
    """
    dt, value = typed
    if isinstance(value, str):
        return escape(value)
    if isinstance(value, bool):
        return "1" if value else "0"
    if isinstance(value, bytes):
        return value.hex().upper()
    if isinstance(value, float):
        return format_float(value, is_single=dt == "r4")
    return f"{value!r}"


def format_float(value: float, *, is_single: bool = False) -> str:
    """Return the shortest text for a float of 8 bytes, or 4 if ``is_single``: ``0.1``, ``NaN``.

    Reading the text gives the same float again.
    """
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    if is_single:
        for digits in range(6, 9):
            text = format(value, f".{digits}g")
            if single(float(text)) == value:
                return repr(float(text))
        return format(value, ".9g")
    return repr(value)


def single(value: float) -> float:
    """Return a float rounded to 4 bytes; raises OverflowError when its value is too large."""
    rounded: float = struct.unpack(">f", struct.pack(">f", value))[0]
    return rounded


def property_element(name: str, typed: Typed, *, attributes: str = "") -> str:
    """Return a property as XML: ``<size dt='i4'>42</size>``; a null has xsi:nil='true'.

    ``typed`` is the value with its data type. ``attributes`` is text placed before the data type.
    """
    if typed.value is None:
        return f"<{name}{attributes} xsi:nil='true'></{name}>"
    kind = "" if typed.dt == "string" else f" dt='{typed.dt}'"
    return f"<{name}{attributes}{kind}>{format_value(typed)}</{name}>"


def pack_folder(folder: str) -> bytes:
    """Return a folder's XML as bytes of an MQRFH2: its length, then UTF-8 padded to 4 bytes."""
    raw = folder.encode()
    padded = raw + b" " * (-len(raw) % _LENGTH_BYTES)
    return len(padded).to_bytes(_LENGTH_BYTES, "big") + padded


def pack_header(
    folders: bytes,
    data_format: str,
    data_encoding: int = MQENC_NORMAL,
    data_coded_char_set_id: int = UTF_8,
) -> bytes:
    """Return an MQRFH2 that contains packed folders; its numbers are big-endian (MQENC_NORMAL).

    ``data_format``, ``data_encoding`` and ``data_coded_char_set_id`` describe the data after it.
    """
    return (
        _FIXED.pack(
            b"RFH ",
            2,
            _FIXED_BYTES + len(folders),
            data_encoding,
            data_coded_char_set_id,
            data_format.encode().ljust(8),
            0,
            UTF_8,
        )
        + folders
    )


def read_header(encoding: int, coded_char_set_id: int, body: bytes) -> Rfh2Headers:
    """Read the MQRFH2 at the start of a body, and further ones that follow it directly.

    Returns the elements of all folders by folder name, and format, encoding, CCSID and offset of
    the data after them. ``encoding`` and ``coded_char_set_id`` are those of the MQMD. Raises
    MQRC_RFH_ERROR for a wrong structure or length, MQRC_RFH_STRING_ERROR for text that is not in
    its character set, and MQRC_RFH_FORMAT_ERROR for a folder that is not well-formed XML.
    """
    texts = read_texts(encoding, coded_char_set_id, body)
    folders: dict[str, list[Element]] = {}
    for text in texts.folders:
        for folder in parse_folder(text):
            folders.setdefault(folder.name, []).extend(folder.children)
    return Rfh2Headers(folders, *texts[1:])


def read_texts(encoding: int, coded_char_set_id: int, body: bytes) -> Texts:
    """Return the folders of one or more MQRFH2 at the start of a body, as unparsed XML texts.

    ``encoding`` and ``coded_char_set_id`` are those of the MQMD. Raises MQRC_RFH_ERROR for a wrong
    structure or length, MQRC_RFH_STRING_ERROR for text that is not in its character set.
    """
    folders: list[str] = []
    start, data_format = 0, FORMAT
    while data_format == FORMAT:
        big_endian = is_big_endian(encoding)
        # From z/OS its StrucId and Format are in EBCDIC; the folders are not.
        is_plain = body.startswith(RFH2.struc_id, start)
        codec = None if is_plain else codec_name(coded_char_set_id, encoding)
        # No copy of the rest: there may be many headers in a row.
        rest = memoryview(body)[start:]
        fixed = RFH2.unpack(rest, big_endian=big_endian, text_codec=codec)
        struc_length = int_in(fixed, "StrucLength")
        end = start + struc_length
        if not start + _FIXED_BYTES <= end <= len(body):
            raise mq_error(rc.MQRC_RFH_ERROR, f"StrucLength {struc_length}")
        name_value_ccsid = int_in(fixed, "NameValueCCSID")
        area = body[start + _FIXED_BYTES : end]
        folders += _texts(area, name_value_ccsid, big_endian=big_endian)
        ccsid = int_in(fixed, "CodedCharSetId")
        coded_char_set_id = coded_char_set_id if ccsid == MQCCSI_INHERIT else ccsid
        encoding = int_in(fixed, "Encoding")
        data_format, start = str(fixed["Format"]), end
    return Texts(folders, data_format, encoding, coded_char_set_id, start)


def parse_folder(text: str) -> list[Element]:
    """Parse the XML text of a folder; short texts come from a cache, so do not change the result.

    Raises MQRC_RFH_FORMAT_ERROR when the text is not well formed.
    """
    return _parse_again(text) if len(text) <= _SHORT_TEXT else parse(text)


def read_properties(
    format_name: str, encoding: int, coded_char_set_id: int, body: bytes
) -> dict[str, object]:
    """Return the values of a message's properties by name, those of the ``usr`` folder.

    Without an MQRFH2 the dict is empty. The first three parameters are those of the MQMD. A group
    within the folder gives names with dots. Raises MQRC_RFH_ERROR, MQRC_RFH_STRING_ERROR or
    MQRC_RFH_FORMAT_ERROR for a malformed header.
    """
    if format_name != FORMAT:
        return {}
    header = read_header(encoding, coded_char_set_id, body)
    return {name: typed.value for name, typed in properties_of(header.folders.get("usr", ()))}


def properties_of(elements: Iterable[Element]) -> list[tuple[str, Typed]]:
    """Return (name, value) of the properties in the elements of a folder, in order.

    A property in a group has a name with dots: ``group.name``. Raises MQRC_RFH_FORMAT_ERROR for a
    text that is not of its data type.
    """
    named = named_elements(elements)
    return [(name, element.typed()) for name, element in named if not element.children]


def named_elements(elements: Iterable[Element], prefix: str = "") -> Iterator[tuple[str, Element]]:
    """Yield elements of a folder with their names, ``group.name`` in a group, in order.

    ``prefix`` stands before each name. Groups, the elements with children, come before what is in
    them. It uses no recursion, because a header may nest as deep as it is long.
    """
    pending = [(f"{prefix}{element.name}", element) for element in elements][::-1]
    while pending:
        name, element = pending.pop()
        yield name, element
        pending.extend((f"{name}.{child.name}", child) for child in element.children[::-1])


def parse(text: str) -> list[Element]:
    """Parse the XML text of a folder into its elements, without a cache.

    Raises MQRC_RFH_FORMAT_ERROR when it is not well formed. Comments, declarations and document
    types are refused.
    """
    root = Element("", {}, [], [])
    open_elements = [root]
    at = 0
    while at < len(text):
        token = _TAG.match(text, at)
        if token is None:
            raise _wrong(f"{text[at : at + 40]!r}")
        at = token.end()
        if token["text"] is not None:
            open_elements[-1].texts.append(_unescape(token["text"]))
        elif token["end"]:
            if open_elements.pop().name != token["name"] or not open_elements:
                raise _wrong(f"</{token['name']}> ends nothing")
        else:
            element = Element(token["name"], _attributes(token["attributes"]), [], [])
            open_elements[-1].children.append(element)
            if not token["empty"]:
                open_elements.append(element)
    if len(open_elements) > 1 or root.text.strip(" \t\r\n\0"):
        raise _wrong(f"<{open_elements[-1].name}> does not end, or text stands outside of it")
    return root.children


#: Most messages of a program have the same mcd and much the same usr folder.
_parse_again = lru_cache(maxsize=512)(parse)


def _texts(area: bytes, ccsid: int, *, big_endian: bool) -> list[str]:
    """Return the XML text of each folder in the variable part of an MQRFH2.

    ``area`` is that part, ``ccsid`` its NameValueCCSID. With ``big_endian`` lengths have the high
    byte first. Raises MQRC_RFH_ERROR for an unknown character set or a wrong length,
    MQRC_RFH_STRING_ERROR for invalid text.
    """
    codec = _CODECS.get(ccsid)
    if codec is None:
        raise mq_error(rc.MQRC_RFH_ERROR, f"NameValueCCSID {ccsid}")
    if codec == "utf-16":
        codec = "utf-16-be" if big_endian else "utf-16-le"
    texts, at = [], 0
    while at < len(area):
        raw_length = area[at : at + _LENGTH_BYTES]
        length = int.from_bytes(raw_length, "big" if big_endian else "little", signed=True)
        at += _LENGTH_BYTES
        if len(raw_length) < _LENGTH_BYTES or length % _LENGTH_BYTES or length < 0:
            raise mq_error(rc.MQRC_RFH_ERROR, f"NameValueLength {length}")
        if at + length > len(area):
            raise mq_error(rc.MQRC_RFH_ERROR, f"NameValueLength {length} is beyond StrucLength")
        try:
            texts.append(area[at : at + length].decode(codec))
        except UnicodeDecodeError as error:
            raise mq_error(rc.MQRC_RFH_STRING_ERROR, str(error)) from None
        at += length
    return texts


def fits(value: int, dt: str) -> bool:
    """Return True if an integer fits the bits of an integer data type: 127 fits ``i1``."""
    limit = 1 << (INTEGER_BITS[dt] - 1)
    return -limit <= value < limit


def _value_of(dt: str, text: str) -> Value:
    """Parse a text as data type ``dt``; raises ValueError or OverflowError when it is invalid.

    An unknown data type returns the text.
    """
    if dt in INTEGER_BITS:
        if not _INTEGER.fullmatch(text.strip()) or not fits(int(text), dt):
            raise ValueError(text)
        return int(text)
    if dt == "boolean":
        if text.strip() not in BOOLEANS:
            raise ValueError(text)
        return BOOLEANS[text.strip()]
    if dt == "bin.hex":
        return bytes.fromhex(text)
    if dt in ("r4", "r8"):
        if "_" in text:
            raise ValueError(text)
        return float(text) if dt == "r8" else single(float(text))
    return text


def _attributes(text: str) -> dict[str, str]:
    """Return the XML attributes in a tag's text by name: ``a='1' b="2"``."""
    return {name: _unescape(one or other) for name, one, other in _ATTRIBUTE.findall(text)}


def _escaped(match: re.Match[str]) -> str:
    """Return the XML entity for a matched character: ``&`` -> ``&amp;``, a tab -> ``&#9;``."""
    char = match[0]
    return _ESCAPES.get(char) or f"&#{ord(char)};"


def _unescape(text: str) -> str:
    """Return a text with its XML entities replaced: ``&lt;`` -> ``<``.

    Raises MQRC_RFH_FORMAT_ERROR for an unknown entity.
    """
    return _ENTITY.sub(_entity_text, text) if "&" in text else text


def _entity_text(match: re.Match[str]) -> str:
    """Return the text for a matched XML entity; raises MQRC_RFH_FORMAT_ERROR for an unknown one."""
    is_hexadecimal, digits, name = match.groups()
    if match[0].endswith(";"):
        if name in _NAMED:
            return _NAMED[name]
        if digits is not None:
            try:
                char = chr(int(digits, 16 if is_hexadecimal else 10))
                # Half of a UTF-16 pair is no character: no program could write it.
                char.encode()
                return char
            except (ValueError, OverflowError):
                pass
    raise _wrong(f"{match[0]!r} stands for nothing")


def _wrong(detail: str) -> MQError:
    """Return (not raise) an MQRC_RFH_FORMAT_ERROR with this detail."""
    return mq_error(rc.MQRC_RFH_FORMAT_ERROR, detail)
