"""The wire protocol between a client and a server of queue managers: frames, values, limits.

A client begins with a preamble: a magic word and the versions that it speaks. A server answers with
its preamble. Both then speak the highest version that both know. Everything that follows are frames
in both directions: a header of three numbers, and one msgpack array (docs/WIRE.md). Values in a
frame have bounds; an error names the wrong value. Both sides cut received bytes into frames by
:class:`Frames`.
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

#: The longest frame, in bytes, until the first conversation of a connection is admitted.
FIRST_FRAME_BYTES: Final = 65_536
#: The most bytes of a frame beside the data of its message: descriptor, properties, names.
HEAD_BYTES: Final = 65_536
#: The longest frame, in bytes, that a client accepts: the longest message, and its properties in
#: a message handle.
ANSWER_BYTES: Final = 2 * 104_857_600 + HEAD_BYTES
#: The most elements of a list in a request; longer lists of numbers travel as bytes.
MAX_ELEMENTS: Final = 4_096
#: The most requests of a conversation that wait for their answers.
MAX_REQUESTS: Final = 16_384
#: The most unanswered puts of a putter that does not wait for answers: these fit into the buffers
#: of a server whose client does not read.
MAX_UNANSWERED_PUTS: Final = 256
#: The most puts in one frame: the loop of a server does nothing else meanwhile.
MAX_PUTS_IN_FRAME: Final = 32
#: The most messages in one answer, and about how many bytes of bodies.
MAX_GOT_IN_FRAME: Final = 1_000
MAX_GOT_BYTES: Final = 1_048_576
#: The most messages that one request takes ahead of gets: it runs in the loop of the server.
MAX_AHEAD_IN_FRAME: Final = 64

#: An answer is an array of two: one of these, and the value, or the failure (an array of class,
#: reason code and detail).
DONE, FAILED = 0, 1
#: The first bytes of an answer, before its value or its failure.
DONE_BYTES: Final = bytes((0x92, DONE))
FAILED_BYTES: Final = bytes((0x92, FAILED))
#: Frames of conversation 0 have one of these in the place of the request number: a sign of life;
#: the end of the connection with its reason; a queue that a get under way cannot get from.
ALIVE, ENDED, REFUSED = 0, 1, 2

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
    """The first bytes of a side: the lowest and the highest protocol version that it speaks."""

    lowest: int
    highest: int

    def packed(self) -> bytes:
        """Return the 8 bytes of the preamble: magic word, lowest version, highest version."""
        return PREAMBLE.pack(MAGIC, *self)

    def common_with(self, other: Preamble) -> int | None:
        """Return the highest version that both this side and ``other`` speak, None without one."""
        version = min(self.highest, other.highest)
        return version if version >= max(self.lowest, other.lowest) else None

    def __str__(self) -> str:
        if self.lowest == self.highest:
            return f"version {self.lowest}"
        return f"versions {self.lowest} to {self.highest}"


OURS: Final = Preamble(LOWEST_VERSION, HIGHEST_VERSION)


def preamble_of(first: bytes) -> Preamble | None:
    """Return the preamble in the first 8 bytes of a connection.

    Returns None for a wrong magic word, or a lowest version above the highest. ``first`` has at
    least 8 bytes.
    """
    magic, lowest, highest = PREAMBLE.unpack_from(first)
    return Preamble(lowest, highest) if magic == MAGIC and lowest <= highest else None


def protocol_of(first: bytes) -> str:
    """Return the name, for a log, of the protocol whose connections begin with ``first``.

    Example: ``b"AMQP…"`` -> ``AMQP``. For an unknown protocol the text quotes the first 12 bytes.
    """
    if first[3:8] == _SETTINGS:
        return "HTTP/2 or gRPC, as a port of Arrow Flight does"
    for start, name in _OTHERS:
        if first.startswith(start):
            return name
    return f"an unknown protocol that begins with {first[:TELLING_BYTES]!r}"


def framed(conversation: int, request: int, payload: bytes) -> bytes:
    """Return a frame: 12 bytes of length, conversation and request number, then ``payload``."""
    return HEADER.pack(len(payload), conversation, request) + payload


_TEXT_CHARACTERS: Final = 65_536
_SHOWN_CHARACTERS: Final = 60
#: A value in a longer frame is not quoted, because that would decode the frame.
_SHOWN_FRAME_BYTES: Final = 65_536

#: A whole number of 8 bytes.
Int64: TypeAlias = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
#: A whole number that is not negative, and one of at least 1.
NonNegative: TypeAlias = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Positive: TypeAlias = Annotated[int, Meta(ge=1, le=2**63 - 1)]
#: Longer than any name, topic string or selector may be: the queue manager refuses those that are
#: too long by their own reason codes.
Text: TypeAlias = Annotated[str, Meta(max_length=_TEXT_CHARACTERS)]
#: A MsgId, CorrelId, GroupId or token.
Identifier: TypeAlias = Annotated[bytes, Meta(max_length=24)]
#: A MsgId or CorrelId of a message that is there.
FullId: TypeAlias = Annotated[bytes, Meta(min_length=24, max_length=24)]
#: The bound of a list, and the most elements of a list of numbers.
BOUNDED: Final = Meta(max_length=MAX_ELEMENTS)
MAX_NUMBERS: Final = 1_048_576
#: A descriptor as :func:`packed_descriptor` makes it: an array of its own. Most messages of a
#: program share one.
PackedDescriptor: TypeAlias = Annotated[bytes, Meta(max_length=4_096)]


class WrongFrame(Exception):
    """A malformed frame; the text names the field and its value.

    ``field`` is the name of the field of a request, empty when the frame as a whole is malformed.
    """

    def __init__(self, text: str, field: str = "") -> None:
        """Take the error text, and the name of the wrong request field, empty for none."""
        super().__init__(text)
        self.field = field


def _base_value(value: object) -> object:
    """Return a value of an int or str subclass, such as an enum, as plain int or str.

    msgspec calls it for values that it cannot encode. Raises TypeError for any other value.
    """
    if isinstance(value, int):
        return int(value)
    if isinstance(value, str):
        return str(value)
    raise TypeError(f"{type(value).__name__} does not travel")


_encoder: Final = msgspec.msgpack.Encoder(enc_hook=_base_value)


def packed(values: object) -> bytes:
    """Return a value as msgpack bytes.

    Raises ValueError for a number of more than 8 bytes, TypeError for a value of an unsuitable
    type.
    """
    try:
        return _encoder.encode(values)
    except OverflowError as error:
        raise ValueError(f"no number of 8 bytes: {error}") from error


@cache
def decoder(kind: Any) -> msgspec.msgpack.Decoder[Any]:
    """Return the msgpack decoder of a type; the same type always gets the same decoder."""
    return msgspec.msgpack.Decoder(kind)


def decoded(kind: Any, payload: bytes, name: str) -> Any:
    """Return the value of type ``kind`` that is packed in a msgpack payload.

    Raises WrongFrame, whose text begins with ``name``, for malformed msgpack and for a value of
    another type.
    """
    try:
        found = decoder(kind).decode(payload)
    except msgspec.ValidationError as error:
        raise _wrong(kind, payload, str(error), name) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        message = str(error) or type(error).__name__
        raise WrongFrame(f"{name}: the frame is no msgpack array: {message[:200]}") from None
    return found


def first_value(payload: bytes) -> object:
    """Return the first value of a msgpack array, which in a request is the verb number.

    Returns None if its packed form has more than 60 bytes. Raises WrongFrame for an empty array or
    other data.
    """
    first = decoded(list[msgspec.Raw], payload, "frame")[:1]
    if not first:
        raise WrongFrame("the frame is no msgpack array with something in it")
    return decoded(Any, bytes(first[0]), "verb") if len(first[0]) <= _SHOWN_CHARACTERS else None


#: The 13 numbers, nine texts and two tokens of a descriptor.
_DESCRIPTOR: Final = msgspec.defstruct(
    "descriptor",
    [
        (name, Int64 if number < 13 else Text if number < 22 else bytes)
        for number, name in enumerate(Descriptor._fields)
    ],
    array_like=True,
    forbid_unknown_fields=True,
)


@lru_cache(maxsize=1_024)
def packed_descriptor(descriptor: Descriptor) -> PackedDescriptor:
    """Return a message descriptor as msgpack; raises MQRC_MD_ERROR for an unsuitable field."""
    try:
        return packed(descriptor)
    except (ValueError, TypeError) as error:
        raise mq_error(rc.MQRC_MD_ERROR, f"the descriptor: {error}") from None


@lru_cache(maxsize=1_024)
def descriptor_of(data: PackedDescriptor) -> Descriptor:
    """Return the message descriptor that is packed in ``data``.

    Raises WrongFrame, whose ``field`` is ``descriptor``, for malformed data.
    """
    try:
        found = decoded(_DESCRIPTOR, data, "descriptor")
    except WrongFrame as wrong:
        raise WrongFrame(str(wrong), "descriptor") from None
    return Descriptor._make(msgspec.structs.astuple(found))


def verb_of(kind: type[msgspec.Struct]) -> int:
    """Return the verb number of a request type."""
    tag = kind.__struct_config__.tag
    assert isinstance(tag, int)
    return tag


def quoted(value: object) -> str:
    """Return a value as text for an error message.

    Strings are cut after 60 characters; of a list only the length is shown: ``an array of 3``.
    """
    if isinstance(value, str | bytes) and len(value) > _SHOWN_CHARACTERS:
        return f"{value[:_SHOWN_CHARACTERS]!r}…"
    if isinstance(value, list):
        return f"an array of {len(value)}"
    return repr(value)


_PLACE: Final = re.compile(r" - at `\$((?:\[[^]]*\])*)`$")


def _wrong(kind: Any, payload: bytes, error: str, name: str) -> WrongFrame:
    """Return the WrongFrame for a value that is not of its type; the text has field and value.

    ``error`` is the text of msgspec's ValidationError. Its path, such as ``$[1][0]``, locates the
    value in the payload.
    """
    found = _PLACE.search(error)
    message = (error[: found.start()] if found else error).replace("`", "")
    message = message[:1].lower() + message[1:]
    places = [int(each) for each in re.findall(r"\[(\d+)\]", found[1])] if found else []
    names, field = _names_of(kind, places)
    value = _value_at(payload, places) if places else ""
    return WrongFrame(f"{name}{''.join(names)}: {value}{message}", field)


def _names_of(kind: Any, places: list[int]) -> tuple[list[str], str]:
    """Return the field names along a path of indexes in a type, and the innermost struct field.

    Example: the names ``.properties``, ``[0]``, ``.dt``, and the field ``properties``. The field is
    "" without a struct; a column of an inner row is no field of a request.
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
    """Return the value at a path of indexes in a payload, quoted for an error, with a colon.

    Returns "" if the payload is longer than 65,536 bytes or has no such value.
    """
    if len(payload) > _SHOWN_FRAME_BYTES:
        return ""
    try:
        found: Any = msgspec.msgpack.decode(payload)
        for place in places:
            found = found[place]
    except (msgspec.DecodeError, ValueError, RecursionError, TypeError, IndexError):
        return ""
    return f"{quoted(found)}: "


#: Called with the preamble, None for other first bytes, and with the first bytes; it returns False
#: to end the input.
OnBegin: TypeAlias = Callable[[Preamble | None, bytes], bool]
#: Called with each frame: conversation, number of the request, payload.
OnFrame: TypeAlias = Callable[[int, int, bytes], object]
#: Called with the length of a long frame of which a part was received.
OnLong: TypeAlias = Callable[[int], object]
#: A frame with a longer payload is a long one.
LONG_FRAME_BYTES: Final = 65_536


class Frames:
    """Cuts received bytes into frames, and keeps an incomplete frame until the rest arrives.

    A frame longer than ``max_bytes`` is refused by its header, before the rest is received. While
    ``is_paused`` is True, complete frames are kept as well.
    """

    __slots__ = (
        "_buffer",
        "_has_begun",
        "_is_noted",
        "_is_over",
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
        """Take the callbacks; ``max_bytes`` is the longest payload of a frame.

        The first bytes expected are the preamble: ``on_begin`` receives it, None for a wrong one,
        and the bytes themselves. It returns False to end. ``on_frame`` receives conversation,
        request number and payload of each frame. ``on_long`` is called once for each frame longer
        than LONG_FRAME_BYTES of which only a part has arrived.
        """
        self._on_begin, self._on_frame, self._on_long = on_begin, on_frame, on_long
        self.max_bytes = max_bytes
        self._buffer = bytearray()
        self._has_begun = self._is_over = self._is_noted = self.is_paused = False

    def take(self, data: bytes) -> None:
        """Add received bytes, and call ``on_frame`` for each frame that is now complete.

        The preamble goes to ``on_begin`` first. While ``is_paused`` is True frames are kept for
        :meth:`go_on`. Raises WrongFrame for a frame longer than ``max_bytes``.
        """
        if self._is_over:
            return
        if not (self._buffer or self.is_paused) and self._has_begun and len(data) >= HEADER.size:
            # The usual case: exactly one frame.
            length, conversation, request = HEADER.unpack_from(data)
            if len(data) == HEADER.size + length and length <= self.max_bytes:
                self._on_frame(conversation, request, data[HEADER.size :])
                return
        self._buffer += data
        if self._has_begun or self._begin():
            self._cut()

    def go_on(self) -> None:
        """Call ``on_frame`` for each complete frame that was kept while ``is_paused`` was True.

        The caller first sets ``is_paused`` to False. Raises WrongFrame for a frame longer than
        ``max_bytes``.
        """
        if self._has_begun and not self._is_over:
            self._cut()

    def end(self) -> None:
        """Drop the bytes received so far, and pass no frame on any more."""
        self._is_over = True
        self._buffer.clear()

    def _begin(self) -> bool:
        """Pass the preamble to ``on_begin`` once it is complete; return True if frames may follow.

        If ``on_begin`` returns False, all later bytes are ignored.
        """
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
        """Call ``on_frame`` for each complete frame in the buffer, and remove the frame.

        Stops while paused, or after :meth:`end`. Raises WrongFrame for a frame longer than
        ``max_bytes``.
        """
        buffer, at = self._buffer, 0
        while len(buffer) - at >= HEADER.size and not (self._is_over or self.is_paused):
            length, conversation, request = HEADER.unpack_from(buffer, at)
            if length > self.max_bytes:
                raise WrongFrame(f"length: a frame of {length} bytes; {self.max_bytes} may come")
            end = at + HEADER.size + length
            if len(buffer) < end:
                if length > LONG_FRAME_BYTES and self._on_long is not None and not self._is_noted:
                    self._is_noted = True
                    self._on_long(length)
                break
            self._is_noted = False
            payload = bytes(memoryview(buffer)[at + HEADER.size : end])
            at = end
            self._on_frame(conversation, request, payload)
        del buffer[:at]
