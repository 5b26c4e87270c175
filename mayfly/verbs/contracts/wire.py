"""The wire between a client and a server of queue managers: first bytes, frames, values, limits.

A client begins with a preamble: magic and the versions that it speaks. A server answers with its
own. Both then speak the highest version that both know. All that follows are frames in both
directions: a header of three numbers, and one msgpack array (docs/WIRE.md). A value of a frame has
bounds; an error names a wrong one. Both sides cut the bytes that come by :class:`Frames`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache, lru_cache
from struct import Struct
from types import UnionType
from typing import (
    Annotated,
    Any,
    Final,
    NamedTuple,
    TypeAlias,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

import msgspec
from msgspec import Meta

from mayfly.mqi import reasons as rc
from mayfly.mqi.descriptor import Descriptor
from mayfly.mqi.errors import mq_error

#: Versions of the protocol that this program speaks.
LOWEST_VERSION: Final = 4
HIGHEST_VERSION: Final = 4

MAGIC: Final = b"MFLY"
#: Magic, lowest and highest version.
PREAMBLE: Final = Struct(">4sHH")
#: The number of bytes behind the header, the conversation (0 is the connection itself), the number
#: of the request.
HEADER: Final = Struct(">III")

#: The longest frame, in bytes, before a conversation of the connection was let in.
FIRST_FRAME_BYTES: Final = 65_536
#: The most bytes of a frame beside the data of its message: descriptor, properties, names.
HEAD_BYTES: Final = 65_536
#: The longest frame, in bytes, that a client takes from a server: the longest message, and its
#: properties in a message handle.
ANSWER_BYTES: Final = 2 * 104_857_600 + HEAD_BYTES
#: A list in a request has at most so many elements; longer lists of numbers travel as bytes.
MAX_ELEMENTS: Final = 4_096
#: A connection may have so many requests that wait for their answers.
MAX_REQUESTS: Final = 16_384
#: A putter that does not wait for answers has at most so many of them ahead: they fit into the
#: buffers of a server whose client does not read.
MAX_UNANSWERED_PUTS: Final = 256
#: So many puts one frame may have: the loop of a server does nothing else meanwhile.
MAX_PUTS_IN_FRAME: Final = 32
#: So many messages one answer may have, and about so many bytes of their bodies.
MAX_GOT_IN_FRAME: Final = 1_000
MAX_GOT_BYTES: Final = 1_048_576

#: An answer is an array of two: one of these, and the value, or the failure (an array of class,
#: reason code and detail).
DONE, FAILED = 0, 1
#: The first bytes of an answer, before its value or its failure.
DONE_BYTES: Final = bytes((0x92, DONE))
FAILED_BYTES: Final = bytes((0x92, FAILED))
#: Frames of conversation 0 have one of these in the place of the request number: a sign of life;
#: the end of the connection with its reason; a queue that a get under way cannot get from.
ALIVE, ENDED, MET = 0, 1, 2

#: First bytes of other protocols -> name of the protocol, for the log.
_OTHERS: Final = (
    (b"TSH", "an IBM MQ client or channel (TSH header)"),
    (b"\xe3\xe2\xc8", "an IBM MQ client or channel of z/OS (TSH header in EBCDIC)"),
    (b"\x16\x03", "TLS, which is not configured on this listener"),
    (b"PRI * HTTP/2", "HTTP/2 or gRPC"),
    (b"AMQP", "AMQP"),
    *((method, "HTTP") for method in (b"GET ", b"POST ", b"PUT ", b"HEAD ", b"OPTIONS ")),
)
#: An HTTP/2 connection of a server begins with a SETTINGS frame: three bytes of length, then this.
_SETTINGS: Final = b"\x04\0\0\0\0"
#: The number of first bytes that is enough to recognise each of these protocols.
TELLING_BYTES: Final = 12


class Preamble(NamedTuple):
    """The versions that one side speaks."""

    lowest: int
    highest: int

    def packed(self) -> bytes:
        """Return it as it travels."""
        return PREAMBLE.pack(MAGIC, *self)

    def common_with(self, other: Preamble) -> int | None:
        """Return the version that both sides speak from now on, None when there is none."""
        version = min(self.highest, other.highest)
        return version if version >= max(self.lowest, other.lowest) else None

    def __str__(self) -> str:
        if self.lowest == self.highest:
            return f"version {self.lowest}"
        return f"versions {self.lowest} to {self.highest}"


OURS: Final = Preamble(LOWEST_VERSION, HIGHEST_VERSION)


def preamble_of(first: bytes) -> Preamble | None:
    """Return the preamble that a connection begins with, None when it begins with another thing."""
    magic, lowest, highest = PREAMBLE.unpack_from(first)
    return Preamble(lowest, highest) if magic == MAGIC and lowest <= highest else None


def spoken_by(first: bytes) -> str:
    """Return a name, for a log, of the protocol that begins with these bytes."""
    if first[3:8] == _SETTINGS:
        return "HTTP/2 or gRPC, as a port of Arrow Flight does"
    for start, name in _OTHERS:
        if first.startswith(start):
            return name
    return f"an unknown protocol that begins with {first[:TELLING_BYTES]!r}"


def framed(conversation: int, request: int, payload: bytes) -> bytes:
    return HEADER.pack(len(payload), conversation, request) + payload


_TEXT_CHARACTERS: Final = 65_536
_SHOWN_CHARACTERS: Final = 60
#: A value in a longer frame is not shown: it would be decoded for that.
_SHOWN_FRAME_BYTES: Final = 65_536

#: A whole number of 8 bytes.
Whole: TypeAlias = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
#: A whole number that is not negative, and one of at least 1.
Natural: TypeAlias = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Positive: TypeAlias = Annotated[int, Meta(ge=1, le=2**63 - 1)]
#: Longer than any name, topic string or selector may be: the queue manager refuses those that are
#: too long by their own reason codes.
Text: TypeAlias = Annotated[str, Meta(max_length=_TEXT_CHARACTERS)]
#: A MsgId, CorrelId, GroupId or token.
Identifier: TypeAlias = Annotated[bytes, Meta(max_length=24)]
#: A MsgId or CorrelId of a message that is there.
WholeId: TypeAlias = Annotated[bytes, Meta(min_length=24, max_length=24)]
#: Lists have so many elements at the most, and lists of numbers so many.
AT_MAX: Final = Meta(max_length=MAX_ELEMENTS)
MAX_NUMBERS: Final = 1_048_576
#: A descriptor as :func:`packed_descriptor` makes it: an array of its own. Most messages of a
#: program share one.
PackedDescriptor: TypeAlias = Annotated[bytes, Meta(max_length=4_096)]


class WrongFrame(Exception):
    """A frame that makes no sense; the text names the field and its value.

    ``field`` is the name of the field of a request, empty where the whole is wrong.
    """

    def __init__(self, text: str, field: str = "") -> None:
        super().__init__(text)
        self.field = field


def _plain(value: object) -> object:
    """Return a value of a class of its own, as an enumeration has, as the number or text it is."""
    if isinstance(value, int):
        return int(value)
    if isinstance(value, str):
        return str(value)
    raise TypeError(f"{type(value).__name__} does not travel")


_encoder: Final = msgspec.msgpack.Encoder(enc_hook=_plain)


def packed(values: object) -> bytes:
    """Return values as they travel; raises ValueError or TypeError for one that cannot travel."""
    try:
        return _encoder.encode(values)
    except OverflowError as error:
        raise ValueError(f"no number of 8 bytes: {error}") from error


@cache
def decoder(kind: Any) -> msgspec.msgpack.Decoder[Any]:
    """Return the decoder of a type, whose rows are named tuples, or structs that are arrays."""
    return msgspec.msgpack.Decoder(kind)


def decoded(kind: Any, payload: bytes, text: str) -> Any:
    """Return the value of a type in a payload; raises WrongFrame; ``text`` is what it is called."""
    try:
        found = decoder(kind).decode(payload)
    except msgspec.ValidationError as error:
        raise _wrong(kind, payload, str(error), text) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        told = str(error) or type(error).__name__
        raise WrongFrame(f"{text}: the frame is no msgpack array: {told[:200]}") from None
    return found


def first_of(payload: bytes) -> object:
    """Return the first value of an array, the number of a verb; raises WrongFrame."""
    first = decoded(list[msgspec.Raw], payload, "frame")[:1]
    if not first:
        raise WrongFrame("the frame is no msgpack array with something in it")
    return decoded(Any, bytes(first[0]), "verb") if len(first[0]) <= _SHOWN_CHARACTERS else None


#: The 13 numbers, nine texts and two tokens of a descriptor.
_DESCRIPTOR: Final = msgspec.defstruct(
    "descriptor",
    [
        (name, Whole if number < 13 else Text if number < 22 else bytes)
        for number, name in enumerate(Descriptor._fields)
    ],
    array_like=True,
    forbid_unknown_fields=True,
)


@lru_cache(maxsize=1_024)
def packed_descriptor(descriptor: Descriptor) -> PackedDescriptor:
    """Return a descriptor as it travels; raises MQRC_MD_ERROR for one that cannot."""
    try:
        return packed(descriptor)
    except (ValueError, TypeError) as error:
        raise mq_error(rc.MQRC_MD_ERROR, f"the descriptor: {error}") from None


@lru_cache(maxsize=1_024)
def descriptor_of(data: PackedDescriptor) -> Descriptor:
    """Return a descriptor that has travelled; raises WrongFrame, whose field is ``descriptor``."""
    try:
        found = decoded(_DESCRIPTOR, data, "descriptor")
    except WrongFrame as wrong:
        raise WrongFrame(str(wrong), "descriptor") from None
    return Descriptor._make(msgspec.structs.astuple(found))


def verb_of(kind: type[msgspec.Struct]) -> int:
    """Return the number of the verb that a type of request travels under."""
    tag = kind.__struct_config__.tag
    assert isinstance(tag, int)
    return tag


def shown(value: object) -> str:
    """Return a value as an error quotes it."""
    if isinstance(value, str | bytes) and len(value) > _SHOWN_CHARACTERS:
        return f"{value[:_SHOWN_CHARACTERS]!r}…"
    if isinstance(value, list):
        return f"an array of {len(value)}"
    return repr(value)


_PLACE: Final = re.compile(r" - at `\$((?:\[[^]]*\])*)`$")


def _wrong(kind: Any, payload: bytes, error: str, text: str) -> WrongFrame:
    """Return the error of a value that is not of its type, with field and value."""
    found = _PLACE.search(error)
    told = (error[: found.start()] if found else error).replace("`", "")
    told = told[:1].lower() + told[1:]
    places = [int(each) for each in re.findall(r"\[(\d+)\]", found[1])] if found else []
    names, field = _names_of(kind, places)
    value = _value_at(payload, places) if places else ""
    return WrongFrame(f"{text}{''.join(names)}: {value}{told}", field)


def _names_of(kind: Any, places: list[int]) -> tuple[list[str], str]:
    """Return the names of places in a type, ``.properties``, ``[0]``, ``.dt``, and the field.

    That is the innermost one of a struct: a part of a row is no field of a request.
    """
    names, field = [], ""
    for place in places:
        while get_origin(kind) in (Annotated, Union, UnionType):
            kind = get_args(kind)[0]
        if isinstance(kind, type) and issubclass(kind, (msgspec.Struct, tuple)):
            is_struct = issubclass(kind, msgspec.Struct)
            fields = list(get_type_hints(kind, include_extras=True).items())
            if issubclass(kind, msgspec.Struct):
                hints = dict(fields)
                fields = [(name, hints[name]) for name in kind.__struct_fields__]
                if kind.__struct_config__.tag is not None:
                    fields.insert(0, ("verb", int))
            name, kind = fields[place] if place < len(fields) else (str(place), Any)
            names.append(f".{name}")
            field = name if is_struct else field
        else:
            names.append(f"[{place}]")
            inner = get_args(kind)
            kind = inner[min(place, len(inner) - 1)] if inner else Any
    return names, field


def _value_at(payload: bytes, places: list[int]) -> str:
    """Return the value at a place of a frame as an error quotes it, with a colon behind it."""
    if len(payload) > _SHOWN_FRAME_BYTES:
        return ""
    try:
        found: Any = msgspec.msgpack.decode(payload)
        for place in places:
            found = found[place]
    except (msgspec.DecodeError, ValueError, RecursionError, TypeError, IndexError):
        return ""
    return f"{shown(found)}: "


#: Is called with the preamble, or None when the first bytes are none, and with the first bytes;
#: it returns False to take nothing more.
OnBegin: TypeAlias = Callable[[Preamble | None, bytes], bool]
#: Is called with each frame: conversation, number of the request, payload.
OnFrame: TypeAlias = Callable[[int, int, bytes], object]
#: Is called with the length of a long frame of which a part has come.
OnLong: TypeAlias = Callable[[int], object]
#: A longer frame is a long one.
LONG_FRAME_BYTES: Final = 65_536


class Frames:
    """Cuts received bytes into frames, and keeps the beginning of a frame until the rest comes.

    A frame longer than ``max_bytes`` is refused by its header, before the rest is received. While
    ``is_paused`` is set, whole frames are kept as well.
    """

    __slots__ = (
        "_buffer",
        "_has_begun",
        "_is_over",
        "_is_told",
        "_on_begin",
        "_on_frame",
        "_on_long",
        "is_paused",
        "max_bytes",
    )

    def __init__(
        self,
        on_begin: OnBegin,
        on_frame: OnFrame,
        max_bytes: int,
        on_long: OnLong | None = None,
    ) -> None:
        """Begin before the preamble; ``max_bytes`` is the longest frame that may come."""
        self._on_begin, self._on_frame, self._on_long = on_begin, on_frame, on_long
        self.max_bytes = max_bytes
        self._buffer = bytearray()
        self._has_begun = self._is_over = self._is_told = self.is_paused = False

    def take(self, data: bytes) -> None:
        """Take received bytes, and call ``on_frame`` for each whole frame; raises WrongFrame."""
        if not self._buffer and self._has_begun and len(data) >= HEADER.size:
            # The usual case: exactly one frame.
            length, conversation, request = HEADER.unpack_from(data)
            if len(data) == HEADER.size + length and length <= self.max_bytes:
                self._on_frame(conversation, request, data[HEADER.size :])
                return
        if self._is_over:
            return
        self._buffer += data
        if self._has_begun or self._begin():
            self._cut()

    def go_on(self) -> None:
        """Call ``on_frame`` for the frames that have come while it paused; raises WrongFrame."""
        if self._has_begun and not self._is_over:
            self._cut()

    def end(self) -> None:
        """Take nothing more."""
        self._is_over = True
        self._buffer.clear()

    def _begin(self) -> bool:
        if len(self._buffer) < PREAMBLE.size:
            return False
        first = bytes(self._buffer[: PREAMBLE.size])
        if not self._on_begin(preamble_of(first), bytes(self._buffer)):
            self.end()
            return False
        del self._buffer[: PREAMBLE.size]
        self._has_begun = True
        return True

    def _cut(self) -> None:
        buffer, at = self._buffer, 0
        while len(buffer) - at >= HEADER.size and not (self._is_over or self.is_paused):
            length, conversation, request = HEADER.unpack_from(buffer, at)
            if length > self.max_bytes:
                raise WrongFrame(f"length: a frame of {length} bytes; {self.max_bytes} may come")
            end = at + HEADER.size + length
            if len(buffer) < end:
                if length > LONG_FRAME_BYTES and self._on_long is not None and not self._is_told:
                    self._is_told = True
                    self._on_long(length)
                break
            self._is_told = False
            payload = bytes(memoryview(buffer)[at + HEADER.size : end])
            at = end
            self._on_frame(conversation, request, payload)
        del buffer[:at]
