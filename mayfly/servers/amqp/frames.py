"""Checks of AMQP frames beside proton: parts of the specification that its engine leaves out.

proton reads a mandatory field that is null as 0, ends the connection for an unattached handle, and
ignores ``echo``. So each frame of a client is inspected before proton gets it; of a transfer only
the handle. Frames of the server are inspected where an ``echo`` is to be answered, as proton cannot
be asked for the flow of a link on which a client receives.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import Any, Final, NamedTuple, TypeAlias

from proton import Data

from mayfly.servers.amqp import codec
from mayfly.servers.amqp.codec import (
    DECODE_ERROR,
    HANDLE_IN_USE,
    UNATTACHED_HANDLE,
    AmqpError,
    Scalar,
    Value,
)

_OPEN, _BEGIN, _ATTACH, _FLOW, _TRANSFER = 0x10, 0x11, 0x12, 0x13, 0x14
_DISPOSITION, _DETACH, _END, _CLOSE = 0x15, 0x16, 0x17, 0x18
_ERROR = 0x1D
#: Size, data offset in words, type, and channel.
_HEAD: Final = Struct(">IBBH")
_HEAD_BYTES: Final = 8
#: The property of an open that announces a close with the reason. A JMS client waits for the close
#: before it uses the connection.
ESTABLISHMENT_FAILED: Final = "amqp:connection-establishment-failed"
#: The protocol header, which comes before the frames.
_HEADER: Final = b"AMQP\x00\x01\x00\x00"
_PROTOCOL_BYTES: Final = 8
#: The head of a transfer, and its fields up to the handle, are not longer.
_FRONT_BYTES: Final = 64
#: Performative -> name, mandatory fields (2.7.1 to 2.7.7), and how many fields are looked at.
_KNOWN: Final[dict[int, tuple[str, tuple[tuple[int, str], ...], int]]] = {
    _OPEN: ("open", ((0, "container-id"),), 1),
    _BEGIN: (
        "begin",
        ((1, "next-outgoing-id"), (2, "incoming-window"), (3, "outgoing-window")),
        4,
    ),
    _ATTACH: ("attach", ((0, "name"), (1, "handle"), (2, "role")), 6),
    _FLOW: ("flow", ((1, "incoming-window"), (2, "next-outgoing-id"), (3, "outgoing-window")), 10),
    _TRANSFER: ("transfer", ((0, "handle"),), 1),
    _DISPOSITION: ("disposition", ((0, "role"), (1, "first")), 2),
    _DETACH: ("detach", ((0, "handle"),), 1),
}
#: The field of the handle, where there is one.
_HANDLE: Final = {_ATTACH: 1, _FLOW: 4, _TRANSFER: 0, _DETACH: 0}
_NULL, _SMALL_ULONG, _ULONG = 0x40, 0x53, 0x80
_TRUE, _BOOLEAN = 0x41, 0x56
_UINT, _SMALL_UINT, _UINT_0 = 0x70, 0x52, 0x43
_LIST_0, _LIST_8, _LIST_32 = 0x45, 0xC0, 0xD0
#: Bytes of a value behind its constructor, by the upper half of that; others begin with a length.
_WIDTHS: Final = {0x4: 0, 0x5: 1, 0x6: 2, 0x7: 4, 0x8: 8, 0x9: 16}
#: The front of a transfer, and of a disposition, whose fields are a short list.
_SHORT_TRANSFER: Final = b"\x00\x53\x14\xc0"
_SHORT_DISPOSITION: Final = b"\x00\x53\x15\xc0"
_BOOLEANS: Final = frozenset((0x41, 0x42))
_UINTS: Final = frozenset((_UINT, _SMALL_UINT, _UINT_0))
#: The head of a frame, this front, and the length and count of the list, with the first fields.
_LEAST_BYTES: Final = 17
_NONE: Final = frozenset[int]()
_SEQUENCE_SPACE: Final = 2**32


class SessionBegun(NamedTuple):
    """A session begins on a channel."""

    channel: int


class LinkAttached(NamedTuple):
    """A link is attached; ``source`` is its encoded source, which proton does not provide."""

    channel: int
    handle: int
    source: bytes


class LinkDetached(NamedTuple):
    """A link is detached; the next frame may attach one of the same name."""

    channel: int
    handle: int


class Echo(NamedTuple):
    """A flow frame asks for the state of a session, or of a link if ``handle`` is not None.

    ``limit`` is the sum of its delivery-count and link-credit: the end of the sender's credit.
    """

    channel: int
    handle: int | None
    limit: int


class RefusedFrame(NamedTuple):
    """A frame of ``size`` bytes that is not passed to proton.

    ``error`` ends its session, or with ``channel`` None the connection. It is None for a frame of a
    session that was ended by an earlier error.
    """

    size: int
    channel: int | None
    error: AmqpError | None


Found: TypeAlias = SessionBegun | LinkAttached | LinkDetached | Echo | RefusedFrame


class ClientFrames:
    """Inspects the frames of one client before proton gets them; knows its sessions and handles."""

    __slots__ = ("_handles", "_max_bytes", "_refused", "_rest")

    def __init__(self, max_bytes: int) -> None:
        """Begin with the protocol header, which comes before all frames.

        ``max_bytes`` is the length of the longest frame.
        """
        self._max_bytes = max_bytes
        #: How many of the coming bytes proton may have without inspection.
        self._rest = _PROTOCOL_BYTES
        #: The handles that are attached, by the channels of the sessions that have begun.
        self._handles: dict[int, set[int]] = {}
        #: Channels of sessions that were ended because of a wrong frame.
        self._refused: frozenset[int] = frozenset()

    def take(self, buffer: bytearray) -> tuple[int, Found | None]:
        """Return how many bytes of the buffer to pass to proton, and a finding in their last frame.

        The second value is None if no frame needs work beside proton's. If the finding is a
        RefusedFrame, that frame comes right after these bytes and is not counted; the caller
        removes it from the buffer. The caller passes the remaining bytes in again: at once if
        something was found, otherwise with more bytes.
        """
        place, end = self._rest, len(buffer)
        found: Found | None = None
        while found is None and place + _HEAD_BYTES <= end:
            size, offset, kind, channel = _HEAD.unpack_from(buffer, place)
            body, stop = place + offset * 4, place + size
            if offset == 2 and not kind and _LEAST_BYTES <= size <= self._max_bytes:
                # Most frames are transfers and dispositions of this form. They are checked inline,
                # because a call would take 2 µs for a frame.
                code = buffer[body + 2] if end - place >= _LEAST_BYTES else 0
                if (
                    code == _TRANSFER
                    and buffer.startswith(_SHORT_TRANSFER, body)
                    and buffer[body + 5]
                ):
                    form, known = buffer[body + 6], self._handles.get(channel, _NONE)
                    if (form == _UINT_0 and 0 in known) or (
                        form == _SMALL_UINT and buffer[body + 7] in known
                    ):
                        place = stop
                        continue
                elif (
                    code == _DISPOSITION
                    and buffer.startswith(_SHORT_DISPOSITION, body)
                    and buffer[body + 5] > 1
                    and buffer[body + 6] in _BOOLEANS
                    and buffer[body + 7] in _UINTS
                ):
                    place = stop
                    continue
            if size < _HEAD_BYTES or size > self._max_bytes or kind or not place < body <= stop:
                # No frame of AMQP: proton reports it.
                place = end
                break
            try:
                if stop > end and not self._is_front_of_transfer(buffer, body, channel):
                    break
                if body < stop <= end:
                    found = self._inspect(buffer, body, channel)
            except (IndexError, AmqpError):
                # Malformed: proton reports it.
                found = None
            if isinstance(found, RefusedFrame):
                found = found._replace(size=size)
            else:
                place = stop
        self._rest = max(place - end, 0)
        return min(place, end), found

    def _is_front_of_transfer(self, buffer: bytearray, body: int, channel: int) -> bool:
        """Return True if an incomplete frame is a transfer on an attached handle.

        proton may have such a frame in parts. ``body`` is the index of the frame's body in the
        buffer.
        """
        if len(buffer) - body < _FRONT_BYTES:
            return False
        performative = _performative(buffer, body)
        if performative is None or performative[0] != _TRANSFER or not performative[2]:
            return False
        known = self._handles.get(channel)
        return known is not None and _uint(buffer, performative[1]) in known

    def _inspect(self, buffer: bytearray, body: int, channel: int) -> Found | None:
        """Inspect a complete frame; return the finding that needs work beside proton's, or None.

        ``body`` is the index of the frame's body in the buffer. Raises IndexError or AmqpError for
        a malformed frame.
        """
        performative = _performative(buffer, body)
        if performative is None:
            return None
        code, begin, count = performative
        known = self._handles.get(channel)
        if code == _TRANSFER and count and known and _uint(buffer, begin) in known:
            # Most frames are these.
            return None
        if code == _END:
            self._handles.pop(channel, None)
            self._refused -= {channel}
        if code not in _KNOWN:
            return None
        name, mandatory, max_fields = _KNOWN[code]
        fields = list(_fields(buffer, begin, min(count, max_fields)))
        for number, field in mandatory:
            if number >= len(fields) or buffer[fields[number]] == _NULL:
                text = f"{name}: {field} is mandatory, and null"
                return RefusedFrame(0, None, AmqpError(DECODE_ERROR, text))
        if code == _BEGIN:
            self._handles[channel] = set()
            return SessionBegun(channel)
        return None if known is None else self._inspect_handle(buffer, fields, code, channel)

    def _inspect_handle(
        self, buffer: bytearray, fields: list[int], code: int, channel: int
    ) -> Found | None:
        """Inspect the handle of a frame; return an attach, detach, echo or refusal, or None.

        ``fields`` are the indexes of the frame's fields in the buffer. The set of attached handles
        is updated.
        """
        known, place = self._handles[channel], _HANDLE.get(code, len(fields))
        handle = _uint(buffer, fields[place]) if place < len(fields) else None
        if handle is not None and (handle in known) is (code == _ATTACH):
            return self._refuse(code, channel, handle)
        if code == _FLOW and len(fields) > 9 and _is_true(buffer, fields[9]):
            limit = (_uint(buffer, fields[5]) or 0) + (_uint(buffer, fields[6]) or 0)
            return Echo(channel, handle, limit % _SEQUENCE_SPACE)
        if handle is None:
            return None
        if code == _DETACH:
            known.discard(handle)
            return LinkDetached(channel, handle)
        if code != _ATTACH:
            return None
        known.add(handle)
        source = fields[5] if len(fields) > 5 else 0
        return LinkAttached(
            channel, handle, bytes(buffer[source : _behind(buffer, source)]) if source else b""
        )

    def _refuse(self, code: int, channel: int, handle: int) -> RefusedFrame:
        """Return the refusal of a frame with a wrong handle.

        The handle of an attach (``code``) is in use already, any other is not attached. The first
        refusal of a session has an error, which ends the session. Later ones have None.
        """
        if channel in self._refused:
            return RefusedFrame(0, channel, None)
        self._refused |= {channel}
        error = AmqpError(UNATTACHED_HANDLE, f"handle {handle} is attached to no link")
        if code == _ATTACH:
            error = AmqpError(HANDLE_IN_USE, f"handle {handle} is attached to a link already")
        return RefusedFrame(0, channel, error)


class ServerLink(NamedTuple):
    """The channel and handle that the server has assigned to a link on which the server sends."""

    channel: int
    handle: int


class ServerFrames:
    """The channels and handles that the server has assigned, read from its frames."""

    __slots__ = ("_channels", "_links")

    def __init__(self) -> None:
        """Begin without sessions and links."""
        #: The client's channel by that of the server.
        self._channels: dict[int, int] = {}
        #: By the client's channel, and their names.
        self._links: dict[tuple[int, str], ServerLink] = {}

    def note(self, data: bytes) -> None:
        """Note the sessions and links that begin or end in complete frames of the server."""
        for channel, code, fields in _frames(data):
            if code == _BEGIN:
                self._channels[channel] = fields[0]
            elif code == _ATTACH and not fields[2] and channel in self._channels:
                self._links[self._channels[channel], fields[0]] = ServerLink(channel, fields[1])
            elif code == _END:
                gone = self._channels.pop(channel, None)
                self._links = {key: link for key, link in self._links.items() if key[0] != gone}

    def forget(self, channel: int, name: str) -> None:
        """Forget a link, by the client's channel and the link's name; ignored if unknown."""
        self._links.pop((channel, name), None)

    def link(self, channel: int, name: str) -> ServerLink | None:
        """Return the numbers of a link, by the client's channel and its name; None if unknown."""
        return self._links.get((channel, name))

    def flow_of(self, data: bytes, link: ServerLink, limit: int, credit: int) -> bytes:
        """Return an encoded flow frame for a link, with its credit and delivery-count.

        It is derived from the first flow of the same session in the frames ``data``. The
        delivery-count is ``limit`` minus ``credit``; ``limit`` is the sum of both in the client's
        flow. Returns b"" if ``data`` has no flow of the session.
        """
        for channel, code, fields in _frames(data):
            if code == _FLOW and channel == link.channel:
                delivery_count = (limit - credit) % _SEQUENCE_SPACE
                numbers = [*fields[:4], link.handle, delivery_count, credit]
                values: list[Value] = [
                    None if number is None else Scalar(Data.UINT, number) for number in numbers
                ]
                return _frame(channel, _FLOW, values)
        return b""


def refusing_open(container: str) -> bytes:
    """Return the protocol header and the encoded open of a container that closes at once."""
    properties: Value = {codec.symbol(ESTABLISHMENT_FAILED): Scalar(Data.BOOL, True)}
    between: list[Value] = [None] * 8
    return _HEADER + _frame(0, _OPEN, [codec.text(container), *between, properties])


def close_with(error: AmqpError) -> bytes:
    """Return an encoded close frame with an error, where proton sends none."""
    condition = Scalar(Data.SYMBOL, error.condition)
    fields: list[Value] = [condition, Scalar(Data.STRING, error.description)]
    if error.info:
        fields.append(
            {
                codec.symbol(name): codec.text(str(value))
                if not isinstance(value, int)
                else Scalar(Data.UINT, value)
                for name, value in error.info.items()
            }
        )
    return _frame(0, _CLOSE, [codec.Described(Scalar(Data.ULONG, _ERROR), fields)])


def _frame(channel: int, code: int, fields: list[Value]) -> bytes:
    """Return an encoded AMQP frame with a performative's code and fields."""
    body = codec.encoded_value(codec.Described(Scalar(Data.ULONG, code), fields))
    return _HEAD.pack(_HEAD_BYTES + len(body), 2, 0, channel) + body


def _frames(data: bytes) -> Iterator[tuple[int, int, list[Any]]]:
    """Yield channel, code and decoded fields of each begin, attach, flow and end frame."""
    place = _PROTOCOL_BYTES if data.startswith(b"AMQP") else 0
    while place + _HEAD_BYTES <= len(data):
        size, offset, _kind, channel = _HEAD.unpack_from(data, place)
        body = place + offset * 4
        found = _performative(data, body) if body < place + size else None
        if found is not None and found[0] in (_BEGIN, _ATTACH, _FLOW, _END):
            code, begin, count = found
            yield (
                channel,
                code,
                [_plain(data, each) for each in _fields(data, begin, min(count, 7))],
            )
        place += max(size, _HEAD_BYTES)


def _performative(buffer: bytes | bytearray, body: int) -> tuple[int, int, int] | None:
    """Return code, index of the first field, and number of fields of a frame body.

    Returns None if the body is not a performative with a list.
    """
    kind = buffer[body + 1]
    if buffer[body] or kind not in (_SMALL_ULONG, _ULONG):
        return None
    place = body + (3 if kind == _SMALL_ULONG else 10)
    code = int.from_bytes(buffer[body + 2 : place], "big")
    form = buffer[place]
    if form == _LIST_8:
        return code, place + 3, buffer[place + 2]
    if form == _LIST_32:
        return code, place + 9, int.from_bytes(buffer[place + 5 : place + 9], "big")
    return (code, place + 1, 0) if form == _LIST_0 else None


def _fields(buffer: bytes | bytearray, place: int, count: int) -> Iterator[int]:
    """Yield the indexes in the buffer at which the first ``count`` fields begin.

    ``place`` is the index of the first field.
    """
    for _ in range(count):
        yield place
        place = _behind(buffer, place)


def _behind(buffer: bytes | bytearray, place: int) -> int:
    """Return the index right after the value at ``place``; raises IndexError beyond the buffer."""
    count = 1
    while count:
        form = buffer[place]
        if not form:
            # A descriptor and a value follow.
            count, place = count + 1, place + 1
            continue
        width = _WIDTHS.get(form >> 4)
        if width is not None:
            place += 1 + width
        elif form >> 4 in (0xA, 0xC, 0xE):
            place += 2 + buffer[place + 1]
        else:
            place += 5 + int.from_bytes(buffer[place + 1 : place + 5], "big")
        count -= 1
    return place


def _uint(buffer: bytes | bytearray, place: int) -> int | None:
    """Return the uint at an index of the buffer; None for another type."""
    form = buffer[place]
    if form == _UINT_0:
        return 0
    if form == _SMALL_UINT:
        return buffer[place + 1]
    return int.from_bytes(buffer[place + 1 : place + 5], "big") if form == _UINT else None


def _is_true(buffer: bytes | bytearray, place: int) -> bool:
    """Return True if the value at an index of the buffer is the boolean true."""
    return buffer[place] == _TRUE or (buffer[place] == _BOOLEAN and buffer[place + 1] == 1)


def _plain(data: bytes, place: int) -> Any:
    """Return the value at an index as plain Python; raises AmqpError if it is malformed."""
    return codec.plain(codec.decoded_value(data[place : _behind(data, place)]))
