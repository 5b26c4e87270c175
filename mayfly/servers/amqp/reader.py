"""The messages of one link on their way in: sections that they have alike are read once.

Most messages of a client have the same sections before their body, but for ids and times, which
have a fixed length each. Such a message is not decoded, and takes a fraction of the time.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple, TypeAlias

from proton import Data

from mayfly.servers.amqp import codec
from mayfly.servers.amqp.codec import Scalar, Value
from mayfly.servers.amqp.incoming import Fields, Incoming, fields_of, incoming

#: Ids and times that differ from message to message: of the section properties, and of the header.
_IDS: Final = (0, 5)
_TIMES: Final = (8, 9)
_TTL: Final = 2
_TIME_BYTES, _TTL_BYTES = 8, 4
#: AMQP has shorter forms for integers that fit into a byte.
_SHORT_INTEGERS: Final = range(-128, 256)


class _Slot(NamedTuple):
    """A value that may differ: in which section, under which name or number, and its length."""

    section: str
    key: Any
    type: int
    length_bytes: int


#: Fixed bytes of a front, and the value behind them; the last ones have none.
_Piece: TypeAlias = "tuple[bytes, _Slot | None]"


class Reader:
    """Reads the messages of one link."""

    def __init__(self) -> None:
        """Begin with no message to compare others with."""
        self._front = b""
        self._is_text = False
        #: The last message; None when those with the same front may be put differently.
        self._last: Incoming | None = None
        #: Its sections; None when others cannot be compared with them.
        self._fields: Fields | None = None
        self._pieces: list[_Piece] = []

    def read(self, raw: bytes, now_ms: int) -> Incoming:
        """Return a message as it is put at ``now_ms``; raises as ``incoming.incoming``."""
        last = self._last
        if last is not None and raw.startswith(self._front):
            body = codec.body_behind(raw, len(self._front), is_text=self._is_text)
            if body is not None:
                return last._replace(body=body)
        fields = None if self._fields is None else self._like_last(raw, self._fields)
        if fields is not None:
            return incoming(fields, now_ms)
        fields = fields_of(codec.decoded(raw))
        message = incoming(fields, now_ms)
        self._last = self._fields = None
        self._remember(raw, fields, message)
        return message

    def _like_last(self, raw: bytes, last: Fields) -> Fields | None:
        """Return the sections of a message with other ids, times and data; None for any other."""
        place = 0
        header, annotations, properties, _application, _body = last
        for fixed, slot in self._pieces:
            if not raw.startswith(fixed, place):
                return None
            place += len(fixed)
            if slot is None:
                break
            value = _value_of(raw[place : place + slot.length_bytes], slot)
            if value is None:
                return None
            place += slot.length_bytes
            if slot.section == "annotations":
                annotations = {**annotations, slot.key: value}
            elif slot.section == "header":
                header = [*header]
                header[slot.key] = value
            else:
                properties = [*properties]
                properties[slot.key] = value
        body = codec.body_behind(raw, place, is_text=self._is_text)
        if body is None:
            return None
        kind = Data.STRING if self._is_text else Data.BINARY
        shown = body.decode() if self._is_text else body
        section = last.body[0]._replace(value=Scalar(kind, shown))
        return Fields(header, annotations, properties, last.application, [section])

    def _remember(self, raw: bytes, fields: Fields, message: Incoming) -> None:
        if len(fields.body) != 1 or len(message.body) > codec.LONGEST_KNOWN_BYTES:
            return
        is_text = fields.body[0].code == codec.VALUE
        front_bytes = len(raw) - len(message.body)
        front_bytes -= len(codec.body_front(len(message.body), is_text=is_text))
        if front_bytes < 0 or message.body != codec.body_behind(raw, front_bytes, is_text=is_text):
            return
        self._front, self._is_text, self._fields = raw[:front_bytes], is_text, fields
        self._pieces = _pieces_of(self._front, fields)
        if fields.is_timeless:
            self._last = message


def _value_of(raw: bytes, slot: _Slot) -> Scalar | None:
    if slot.type == Data.STRING:
        try:
            return Scalar(Data.STRING, raw.decode())
        except UnicodeDecodeError:
            return None
    return Scalar(slot.type, int.from_bytes(raw, "big", signed=slot.type != Data.UINT))


def _pieces_of(front: bytes, fields: Fields) -> list[_Piece]:
    """Return a front in pieces; a value whose bytes occur twice is taken for fixed."""
    places: list[tuple[int, _Slot]] = []
    for slot, value in _slots(fields):
        mark = _bytes_of(value)
        if mark and front.count(mark) == 1:
            places.append((front.index(mark), slot._replace(length_bytes=len(mark))))
    pieces: list[_Piece] = []
    begin = 0
    for place, slot in sorted(places, key=lambda each: each[0]):
        if place < begin:
            return [(front, None)]
        pieces.append((front[begin:place], slot))
        begin = place + slot.length_bytes
    pieces.append((front[begin:], None))
    return pieces


def _slots(fields: Fields) -> list[tuple[_Slot, Value]]:
    found: list[tuple[_Slot, Value]] = []
    for name, value in fields.annotations.items():
        if isinstance(value, Scalar) and value.type in (Data.LONG, Data.TIMESTAMP):
            found.append((_Slot("annotations", name, value.type, 0), value))
    ttl = fields.header[_TTL]
    if isinstance(ttl, Scalar) and ttl.type == Data.UINT:
        found.append((_Slot("header", _TTL, ttl.type, 0), ttl))
    for number in (*_IDS, *_TIMES):
        value = fields.properties[number]
        wanted = Data.STRING if number in _IDS else Data.TIMESTAMP
        if isinstance(value, Scalar) and value.type == wanted:
            found.append((_Slot("properties", number, value.type, 0), value))
    return found


def _bytes_of(value: Value) -> bytes:
    """Return the bytes of a value behind its type, empty for one that may have another length."""
    assert isinstance(value, Scalar)
    if value.type == Data.STRING:
        return str(value.value).encode()
    number = int(value.value)
    if value.type != Data.TIMESTAMP and number in _SHORT_INTEGERS:
        return b""
    if value.type == Data.UINT:
        return number.to_bytes(_TTL_BYTES, "big")
    return number.to_bytes(_TIME_BYTES, "big", signed=True)
