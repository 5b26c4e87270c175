"""The wire between a client and a server of queue managers: first bytes, frames, limits.

A client begins with a preamble: magic and the versions that it speaks. A server answers with its
own. Both then speak the highest version that both know. All that follows are frames in both
directions: a header of three numbers, and one msgpack array (docs/WIRE.md).
"""

from __future__ import annotations

from struct import Struct
from typing import Final, NamedTuple

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
MOST_ELEMENTS: Final = 4_096
#: A connection may have so many requests that wait for their answers.
MOST_REQUESTS: Final = 16_384
#: A putter that does not wait for answers has at most so many of them ahead: they fit into the
#: buffers of a server whose client does not read.
MOST_UNANSWERED_PUTS: Final = 256
#: So many puts one frame may have: the loop of a server does nothing else meanwhile.
MOST_PUTS_IN_FRAME: Final = 32
#: So many messages one answer may have, and about so many bytes of their bodies.
MOST_GOT_IN_FRAME: Final = 1_000
MOST_GOT_BYTES: Final = 1_048_576

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
        """Return it for people."""
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
    """Return a frame."""
    return HEADER.pack(len(payload), conversation, request) + payload
