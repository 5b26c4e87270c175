"""One property of one folder of an MQRFH2, read as far and as fast as a selector needs.

The result is that of ``mqi.properties``, but the rest of the header is not read. This works for
headers as programs write them: one MQRFH2 in UTF-8, properties without entities. All others are
left to ``mqi.properties``.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Literal, TypeAlias

from mayfly.mqi.errors import MQError
from mayfly.mqi.layout import is_big_endian
from mayfly.mqi.properties import (
    FORMAT,
    UTF_8,
    Element,
    Header,
    Value,
    parse,
    properties_of,
    read_header,
)

#: A folder as it stands in the header, or its properties by name where that had to be read.
Folder: TypeAlias = bytes | Mapping[str, Value]
NONE: Mapping[str, Value] = MappingProxyType({})
_FIXED_BYTES = 36
_LENGTH_BYTES = 4
_VERSION = 2
_BIG, _LITTLE = struct.Struct(">4siiii8sii"), struct.Struct("<4siiii8sii")
_PADDED_FORMAT = FORMAT.encode().ljust(8)
_BOOLEANS = {"1": True, "0": False}
_SHORT_INTEGER = 9


def find_folder(folder: bytes, encoding: int, coded_char_set_id: int, body: bytes) -> Folder:
    """Return a folder, given as ``<usr``; an empty one when it is missing or the header malformed.

    Both numbers are the descriptor's, whose Format is MQHRF2. Other folders are not read, so a
    mistake in them stays unnoticed.
    """
    end = _end_of_plain(body[:_FIXED_BYTES], encoding)
    if 0 < end <= len(body):
        found = body.find(folder, _FIXED_BYTES + _LENGTH_BYTES, end)
        if found < 0:
            return NONE
        # Where a folder begins, its length stands before it; within a text, the four characters
        # there would make a length beyond any header.
        order: Literal["big", "little"] = "big" if is_big_endian(encoding) else "little"
        size = int.from_bytes(body[found - _LENGTH_BYTES : found], order)
        if 0 < size <= end - found and body.find(folder, found + 1, end) < 0:
            return body[found : found + size]
    return _read(folder, encoding, coded_char_set_id, body)


def value_in(folder: Folder, name: str) -> Value:
    """Return the value of a property in a folder, None when it has none.

    Dots separate the names of its groups from its own name. Other properties are not read, so a
    mistake in them stays unnoticed.
    """
    if not isinstance(folder, bytes):
        return folder.get(name)
    expression, end = _searched(name)
    match = expression.search(folder)
    if match is None:
        return _all(folder).get(name) if "." in name else None
    dt, raw = match.groups()
    at = match.start()
    # A property is directly in the folder when all elements before it have ended, but the folder.
    is_direct = folder.count(b"<", 0, at) == 2 * folder.count(b"</", 0, at) + 1
    if raw is None or not is_direct or folder.find(end, match.end()) >= 0:
        return _all(folder).get(name)
    try:
        text: str = raw.decode()
        return text if dt is None else _value(name, dt.decode(), text)
    except (MQError, UnicodeDecodeError):
        return None


def may_hold(ending: bytes, encoding: int, body: bytes) -> bool:
    """Return True if an MQRFH2 may hold a text that ends like this, as ``>red</colour``.

    False is certain: without entities, text stands in a header in UTF-8 as it is.
    """
    end = _end_of_plain(body[:_FIXED_BYTES], encoding)
    if not 0 < end <= len(body):
        return True
    return body.find(ending, _FIXED_BYTES, end) >= 0 or body.find(b"&", _FIXED_BYTES, end) >= 0


def header_of(encoding: int, coded_char_set_id: int, body: bytes) -> Header | None:
    """Return the content of an MQRFH2, None when it is malformed."""
    try:
        return read_header(encoding, coded_char_set_id, body)
    except MQError:
        return None


@lru_cache(maxsize=4096)
def _end_of_plain(fixed: bytes, encoding: int) -> int:
    """Return the end of the folders, 0 if this is no fixed part of a single MQRFH2 in UTF-8."""
    if len(fixed) < _FIXED_BYTES:
        return 0
    layout = _BIG if is_big_endian(encoding) else _LITTLE
    struc_id, version, end, _, _, data_format, _, ccsid = layout.unpack(fixed)
    is_plain = struc_id == b"RFH " and version == _VERSION and ccsid == UTF_8
    return max(0, end) if is_plain and data_format != _PADDED_FORMAT else 0


@lru_cache(maxsize=1024)
def _searched(name: str) -> tuple[re.Pattern[bytes], bytes]:
    """Return the pattern of an element (with type and text if it is ordinary) and its end tag."""
    raw = re.escape(name.encode())
    expression = rb"<%b(?![\w$.:-])(?:(?: dt='([a-z0-9.]+)')?>([^<&]*)</%b>)?" % (raw, raw)
    return re.compile(expression), b"</%b>" % name.encode()


@lru_cache(maxsize=64)
def _all(folder: bytes) -> Mapping[str, Value]:
    """Return all properties of a folder; the cache serves the other names of the same message."""
    try:
        return _properties([child for root in parse(folder.decode()) for child in root.children])
    except (MQError, UnicodeDecodeError):
        return NONE


def _read(folder: bytes, encoding: int, coded_char_set_id: int, body: bytes) -> Mapping[str, Value]:
    header = header_of(encoding, coded_char_set_id, body)
    if header is None:
        return NONE
    try:
        return _properties(header.folders.get(folder[1:].decode(), []))
    except MQError:
        return NONE


def _properties(elements: list[Element]) -> Mapping[str, Value]:
    return {name: typed.value for name, typed in properties_of(elements)}


def _value(name: str, dt: str, text: str) -> Value:
    if dt in ("i4", "i8") and text.isdecimal() and text.isascii() and len(text) <= _SHORT_INTEGER:
        return int(text)
    if dt == "boolean" and text in _BOOLEANS:
        return _BOOLEANS[text]
    return Element(name, {"dt": dt}, [], [text]).typed().value
