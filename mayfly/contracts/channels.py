"""Verbs, requests and answers between a sender channel and its receiver (docs/WIRE.md).

A conversation begins with CONNECT, which names the version of the verbs that follow. A request is
an array: first the number of its verb, then the fields of a named tuple in order.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum, unique
from typing import Any, Final, NamedTuple

from mayfly.contracts.wire_fields import (
    Kind,
    Row,
    WrongFrame,
    WrongValue,
    flag,
    many,
    maybe,
    packed,
    raw,
    text,
    whole,
)
from mayfly.contracts.wire_rows import descriptor, packed_descriptor
from mayfly.mqi.descriptor import Descriptor

#: Both ends must speak the same. Versions 1 to 3 were spoken over Arrow Flight.
VERSION: Final = 4
_ID_BYTES: Final = 24
#: Bytes of a message in a frame beside its data and its descriptor: names, ids, lengths.
_HEAD_BYTES: Final = 400


@unique
class ChannelVerb(IntEnum):
    """The verbs of a sender; none has a number of ``wire_verbs.Verb``."""

    CONNECT = 80
    #: Begin to send; PING needs no more than CONNECT.
    NEGOTIATE = 81
    #: Messages of a batch that is too long for one frame. The first such frame begins the batch.
    PARCELS = 82
    #: The rest of a batch: put all of it now, or keep it until GO_ON.
    PUT_BATCH = 83
    KEEP_BATCH = 84
    GO_ON = 85
    CONFIRM = 86
    PING = 87
    END = 88


class Introduction(NamedTuple):
    """CONNECT: the sending queue manager, and the channel and queue manager that receive.

    A blank ``queue_manager`` means the one that is served, when the server serves just one. A
    blank ``token`` shows none. With ``heartbeat_ms`` 0 the server sends no signs of life.
    """

    version: int
    channel: str
    queue_manager: str
    sending_manager: str
    token: str
    heartbeat_ms: int


class Welcome(NamedTuple):
    """The answer to CONNECT: the receiving queue manager, and how often both sides speak."""

    queue_manager: str
    heartbeat_ms: int


class Opening(NamedTuple):
    """The state and the limits of a sender when its channel starts.

    ``sequence`` is the number of the last message that both sides know to be received. With
    ``is_reset`` the receiver takes this number over. The sender sends something at least every
    ``heartbeat_s``; with 0 it makes no such promise. ``instance_id`` tells queue managers of one
    name apart.
    """

    channel: str
    manager: str
    sequence: int
    batch_size: int
    max_message_bytes: int
    is_reset: bool
    heartbeat_s: int
    instance_id: str


class Negotiation(NamedTuple):
    """NEGOTIATE: an opening without the names, which were in CONNECT."""

    sequence: int
    batch_size: int
    max_message_bytes: int
    is_reset: bool
    heartbeat_s: int
    instance_id: str


class ReceiverState(NamedTuple):
    """The state of a receiver: the last batch that it has committed, and its limits."""

    manager: str
    luw: str
    sequence: int
    batch_size: int
    max_message_bytes: int


class Parcel(NamedTuple):
    """A message on its way; ``life_ms`` is the life left when it was sent, None without end.

    A message with ``is_fast`` is put outside of the batch: it can be lost, and is visible at once.
    """

    queue: str
    manager: str
    descriptor: Descriptor
    msg_id: bytes
    correl_id: bytes
    life_ms: int | None
    body: bytes
    is_fast: bool


class Parcels(NamedTuple):
    """PARCELS: a part of a batch."""

    parcels: Sequence[Parcel]


class Batch(NamedTuple):
    """PUT_BATCH and KEEP_BATCH: the number of messages of the batch, and those not yet sent."""

    message_count: int
    parcels: Sequence[Parcel]


class GoOn(NamedTuple):
    """GO_ON: the time in ms that the batch was on the link."""

    transit_ms: int


class Confirm(NamedTuple):
    """CONFIRM: the name of the batch, and the number of its last message."""

    luw: str
    sequence: int


class Nothing(NamedTuple):
    """PING and END."""


def natural(value: Any) -> int:
    """A whole number that is not negative."""
    if whole(value) < 0:
        raise WrongValue(f"{value} is negative")
    return int(value)


def positive(value: Any) -> int:
    """A whole number of at least 1."""
    if whole(value) < 1:
        raise WrongValue(f"{value} is not at least 1")
    return int(value)


def whole_id(value: Any) -> bytes:
    """A MsgId or CorrelId: exactly 24 bytes."""
    if type(value) is not bytes or len(value) != _ID_BYTES:
        shown = f"{value[:60]!r}" if type(value) is bytes else repr(value)
        raise WrongValue(f"{shown} is not made of {_ID_BYTES} bytes")
    return value


class Request:
    """The named tuple of a request, and the kinds of its fields."""

    __slots__ = ("_made", "_row")

    def __init__(self, made: Any, said: str, **kinds: Kind) -> None:
        """Take the named tuple, its name in errors, and a kind for each of its fields in order."""
        assert tuple(kinds) == made._fields, kinds
        self._made, self._row = made, Row(said, **kinds)

    def of(self, values: list[Any]) -> Any:
        """Return a request that came; raises WrongFrame, whose text names field and value."""
        return self._made(*self._row.of(values))


_PARCEL: Final = Row(
    "parcel",
    queue=text,
    manager=text,
    descriptor=descriptor,
    msg_id=whole_id,
    correl_id=whole_id,
    life_ms=maybe(natural),
    body=raw,
    is_fast=flag,
)
_WELCOME: Final = Row("welcome", queue_manager=text, heartbeat_ms=natural)
_STATE: Final = Row(
    "state",
    manager=text,
    luw=text,
    sequence=natural,
    batch_size=positive,
    max_message_bytes=natural,
)


def _parcel(values: Any) -> Parcel:
    return Parcel(*_PARCEL(values))


def _welcome(values: Any) -> Welcome:
    return Welcome(*_WELCOME(values))


def _state(values: Any) -> ReceiverState:
    return ReceiverState(*_STATE(values))


def _nothing(_value: object) -> None:
    """Take nil, and ignore a value that a later version may send in its place."""


class Form(NamedTuple):
    """The request and the answer of a verb."""

    request: Request
    answer: Kind


_BATCH: Final = {"message_count": natural, "parcels": many(_parcel)}

FORMS: Final[dict[int, Form]] = {
    ChannelVerb.CONNECT: Form(
        Request(
            Introduction,
            "connect",
            version=whole,
            channel=text,
            queue_manager=text,
            sending_manager=text,
            token=text,
            heartbeat_ms=natural,
        ),
        _welcome,
    ),
    ChannelVerb.NEGOTIATE: Form(
        Request(
            Negotiation,
            "negotiate",
            sequence=natural,
            batch_size=positive,
            max_message_bytes=natural,
            is_reset=flag,
            heartbeat_s=natural,
            instance_id=text,
        ),
        _state,
    ),
    ChannelVerb.PARCELS: Form(Request(Parcels, "parcels", parcels=many(_parcel)), _nothing),
    # The sender may send GO_ON after so many ms; nil when all is put.
    ChannelVerb.PUT_BATCH: Form(Request(Batch, "put_batch", **_BATCH), maybe(natural)),
    # So many ms ago the receiver began to take the batch.
    ChannelVerb.KEEP_BATCH: Form(Request(Batch, "keep_batch", **_BATCH), natural),
    ChannelVerb.GO_ON: Form(Request(GoOn, "go_on", transit_ms=natural), maybe(natural)),
    ChannelVerb.CONFIRM: Form(Request(Confirm, "confirm", luw=text, sequence=natural), _nothing),
    ChannelVerb.PING: Form(Request(Nothing, "ping"), _nothing),
    ChannelVerb.END: Form(Request(Nothing, "end"), _nothing),
}


def introduction_of(values: list[Any]) -> Introduction:
    """Return the CONNECT that came; raises WrongFrame, for another version before anything else."""
    if values and type(values[0]) is int and values[0] != VERSION:
        said = f"message channels of version {values[0]} are not spoken here: {VERSION}"
        raise WrongFrame(f"connect.version: {said}")
    introduction: Introduction = FORMS[ChannelVerb.CONNECT].request.of(values)
    return introduction


def packed_request(verb: ChannelVerb, request: tuple[Any, ...]) -> bytes:
    """Return a request as it travels; raises ValueError for a value that cannot travel."""
    if isinstance(request, Parcels | Batch):
        *first, parcels = request
        return packed([int(verb), *first, [_travelling(parcel) for parcel in parcels]])
    return packed([int(verb), *request])


def _travelling(parcel: Parcel) -> list[Any]:
    queue, manager, described, *rest = parcel
    return [queue, manager, packed_descriptor(described), *rest]


def parts(parcels: Sequence[Parcel], most_bytes: int) -> list[list[Parcel]]:
    """Return messages in parts of at most ``most_bytes``; one that is longer is a part alone.

    There is at least one part, which is empty for no messages.
    """
    found: list[list[Parcel]] = [[]]
    room = most_bytes
    for parcel in parcels:
        bytes_needed = len(packed_descriptor(parcel.descriptor)) + len(parcel.body) + _HEAD_BYTES
        if bytes_needed > room and found[-1]:
            found.append([])
            room = most_bytes
        room -= bytes_needed
        found[-1].append(parcel)
    return found
