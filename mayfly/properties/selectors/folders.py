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
Folder: TypeAlias = "bytes | Elements | Mapping[str, Value]"
NONE: Mapping[str, Value] = MappingProxyType({})
_FIXED_BYTES = 36
_LENGTH_BYTES = 4
_VERSION = 2
_BIG, _LITTLE = struct.Struct(">4siiii8sii"), struct.Struct("<4siiii8sii")
_PADDED_FORMAT = FORMAT.encode().ljust(8)
_BOOLEANS = {"1": True, "0": False}
_SHORT_INTEGER = 9
#: Characters behind the name of a folder: ``<usr2>`` is not ``usr``.
_AFTER_NAME = b"> /\t\r\n"
#: Of folders up to this length the properties of the last few that were read are kept.
_KEPT_BYTES = 16 * 1024
_TAG = re.compile(rb"<(/?)([^\s/>]*)")
#: An element as programs write it, with or without its type.
_ORDINARY = re.compile(rb"<([^\s/>]*)(?: dt='([a-z0-9.]+)')?>([^<&]*)</([^>]*)>")


def find_folder(folder: bytes, encoding: int, coded_char_set_id: int, body: bytes) -> Folder:
    """Return a folder, given as ``<usr``; an empty one when it is missing or the header malformed.

    Both numbers are the descriptor's, whose Format is MQHRF2. Other folders are not read, so a
    mistake in them stays unnoticed.
    """
    end = _end_of_plain(body[:_FIXED_BYTES], encoding)
    if 0 < end <= len(body):
        found = body.find(folder, _FIXED_BYTES + _LENGTH_BYTES, end - 1)
        if found < 0:
            return NONE
        # Where a folder begins, its length stands before it; within a text, the four characters
        # there would make a length beyond any header.
        order: Literal["big", "little"] = "big" if is_big_endian(encoding) else "little"
        size = int.from_bytes(body[found - _LENGTH_BYTES : found], order)
        is_whole_name = body[found + len(folder)] in _AFTER_NAME
        if is_whole_name and 0 < size <= end - found and body.find(folder, found + 1, end) < 0:
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


class Elements:
    """A folder whose elements are found in one pass, for a selector that reads many of them.

    Each value is that of :func:`value_in`, which looks through the whole folder for each.
    """

    __slots__ = ("_ends", "_folder", "_starts", "_whole")

    def __init__(self, folder: bytes) -> None:
        """Find where each name begins for the first time, and how often it ends."""
        self._folder = folder
        #: Name -> the place, and whether it is directly in the folder.
        self._starts: dict[bytes, tuple[int, bool]] = {}
        self._ends: dict[bytes, int] = {}
        self._whole: Mapping[str, Value] | None = None
        open_count = 0
        for match in _TAG.finditer(folder):
            is_end, name = match.groups()
            if is_end:
                self._ends[name] = self._ends.get(name, 0) + 1
                open_count -= 1
            else:
                self._starts.setdefault(name, (match.start(), open_count == 1))
                open_count += 1

    def get(self, name: str) -> Value:
        """Return the value of a property, None when the folder has none."""
        raw_name = name.encode()
        at, is_direct = self._starts.get(raw_name, (-1, False))
        if at < 0:
            return self._all().get(name) if "." in name else None
        match = _ORDINARY.match(self._folder, at)
        is_one = match is not None and match[4] == raw_name and self._ends.get(raw_name) == 1
        if match is None or not is_one or not is_direct:
            return self._all().get(name)
        try:
            text: str = match[3].decode()
            return text if match[2] is None else _value(name, match[2].decode(), text)
        except (MQError, UnicodeDecodeError):
            return None

    def _all(self) -> Mapping[str, Value]:
        if self._whole is None:
            self._whole = _all(self._folder)
        return self._whole


def all_folders(encoding: int, coded_char_set_id: int, body: bytes) -> dict[bytes, Folder]:
    """Return what :func:`find_folder` returns for each folder of a header, in one pass."""
    end, at = _end_of_plain(body[:_FIXED_BYTES], encoding), _FIXED_BYTES
    order: Literal["big", "little"] = "big" if is_big_endian(encoding) else "little"
    found: dict[bytes, Folder] = {}
    while 0 < end <= len(body) and at < end:
        size = int.from_bytes(body[at : at + _LENGTH_BYTES], order)
        at += _LENGTH_BYTES
        tag = _TAG.match(body, at)
        if not 0 < size <= end - at or tag is None or tag[0] in found:
            break
        found[tag[0]] = body[at : at + size]
        at += size
    if at == end:
        return found
    header = header_of(encoding, coded_char_set_id, body)
    return {} if header is None else {f"<{n}".encode(): _folder(header, n) for n in header.folders}


def may_hold(ending: bytes, encoding: int, body: bytes) -> bool:
    """Return True if an MQRFH2 may hold a text that ends like this, as ``>red</colour``.

    False is certain: without entities, text stands in a header in UTF-8 as it is.
    """
    end = _end_of_plain(body[:_FIXED_BYTES], encoding)
    if not 0 < end <= len(body):
        return True
    return body.find(ending, _FIXED_BYTES, end) >= 0 or body.find(b"&", _FIXED_BYTES, end) >= 0


def size_of(encoding: int, body: bytes) -> int:
    """Return how long the MQRFH2 at the start of a body is; the whole length if that is unclear."""
    end = _end_of_plain(body[:_FIXED_BYTES], encoding)
    return end if 0 < end <= len(body) else len(body)


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


def _all(folder: bytes) -> Mapping[str, Value]:
    """Return all properties of a folder; the cache serves the other names of the same message."""
    return _kept_all(folder) if len(folder) <= _KEPT_BYTES else _read_all(folder)


@lru_cache(maxsize=64)
def _kept_all(folder: bytes) -> Mapping[str, Value]:
    return _read_all(folder)


def _read_all(folder: bytes) -> Mapping[str, Value]:
    try:
        return _properties([child for root in parse(folder.decode()) for child in root.children])
    except (MQError, UnicodeDecodeError):
        return NONE


def _read(folder: bytes, encoding: int, coded_char_set_id: int, body: bytes) -> Mapping[str, Value]:
    header = header_of(encoding, coded_char_set_id, body)
    return NONE if header is None else _folder(header, folder[1:].decode())


def _folder(header: Header, name: str) -> Mapping[str, Value]:
    try:
        return _properties(header.folders.get(name, []))
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
