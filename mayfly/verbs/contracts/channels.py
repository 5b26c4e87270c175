"""Channels: requests and answers between a sender channel and its receiver (docs/WIRE.md).

A conversation begins with CONNECT, which gives the version of the verbs that follow. A request is
an array: the number of its verb, then its fields in order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Final, NamedTuple, TypeAlias

import msgspec

from mayfly.mqi.descriptor import Descriptor
from mayfly.verbs.contracts.wire import (
    BOUNDED,
    FullId,
    Int64,
    NonNegative,
    PackedDescriptor,
    Positive,
    Text,
    WrongFrame,
    decoded,
    descriptor_of,
    first_value,
    packed_descriptor,
    quoted,
    verb_of,
)

#: Both ends must speak the same.
VERSION: Final = 5
#: Bytes of a message in a frame beside its data and its descriptor: names, ids, lengths.
_HEAD_BYTES: Final = 400


class Welcome(NamedTuple):
    """The answer to CONNECT: the receiving queue manager, and the interval of heartbeats in ms."""

    queue_manager: Text
    heartbeat_ms: NonNegative


class Opening(NamedTuple):
    """The state and the limits of a sender when its channel starts.

    ``sequence`` is the number of the last message known to be committed by both sides. With
    ``is_reset`` the receiver takes this number over. The sender sends something at least every
    ``heartbeat_s`` seconds; 0 is no promise. ``instance_id`` distinguishes queue managers of the
    same name.
    """

    channel: str
    manager: str
    sequence: int
    batch_size: int
    max_message_bytes: int
    is_reset: bool
    heartbeat_s: int
    instance_id: str


class ReceiverState(NamedTuple):
    """The state of a receiver: its last committed batch, and the limits for this connection."""

    manager: Text
    luw: Text
    sequence: NonNegative
    batch_size: Positive
    max_message_bytes: NonNegative


class Envelope(NamedTuple):
    """A message between two queue managers, with its target queue.

    ``life_ms`` is the time to expiry in ms when the message was sent, None if it never expires. A
    message with ``is_fast`` is put outside of the batch: it can be lost, and is visible at once.
    """

    queue: str
    manager: str
    descriptor: Descriptor
    msg_id: bytes
    correl_id: bytes
    life_ms: int | None
    body: bytes
    is_fast: bool


class EnvelopeRow(NamedTuple):
    """The wire form of an :class:`Envelope`, with its descriptor packed as msgpack."""

    queue: Text
    manager: Text
    descriptor: PackedDescriptor
    msg_id: FullId
    correl_id: FullId
    life_ms: NonNegative | None
    body: bytes
    is_fast: bool


_Envelopes: TypeAlias = Annotated[list[EnvelopeRow], BOUNDED]


class ChannelRequest(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    """A request of a sender channel; no verb number is also one in `verbs.requests`."""

    #: The type of its answer.
    ANSWER: ClassVar[Any] = type(None)


class Introduction(ChannelRequest, tag=80):
    """CONNECT: the sending queue manager, and the receiving channel and queue manager.

    A blank ``queue_manager`` means the only one that the server serves. A blank ``token`` is no
    token. With ``heartbeat_ms`` 0 the server sends no heartbeats.
    """

    ANSWER = Welcome

    version: Int64
    channel: Text
    queue_manager: Text
    sending_manager: Text
    token: Text
    heartbeat_ms: NonNegative


class Negotiation(ChannelRequest, tag=81):
    """NEGOTIATE: an :class:`Opening` without the names, which CONNECT had."""

    ANSWER = ReceiverState

    sequence: NonNegative
    batch_size: Positive
    max_message_bytes: NonNegative
    is_reset: bool
    heartbeat_s: NonNegative
    instance_id: Text


class Envelopes(ChannelRequest, tag=82):
    """PARCELS: a part of a batch that is too long for one frame."""

    envelopes: _Envelopes


class PutBatch(ChannelRequest, tag=83):
    """PUT_BATCH: put a batch now; the request has its last messages and the number of all messages.

    The answer is None when all are put, else the ms after which the sender may send GO_ON.
    """

    ANSWER = NonNegative | None

    message_count: NonNegative
    envelopes: _Envelopes


class KeepBatch(ChannelRequest, tag=84):
    """KEEP_BATCH: keep a batch in the receiver, as in PUT_BATCH, until GO_ON.

    The answer is the ms since the receiver got the first messages of the batch.
    """

    ANSWER = NonNegative

    message_count: NonNegative
    envelopes: _Envelopes


class GoOn(ChannelRequest, tag=85):
    """GO_ON: put the kept batch, or try again; ``transit_ms`` is the time of the batch on the link.

    The answer is that of PUT_BATCH.
    """

    ANSWER = NonNegative | None

    transit_ms: NonNegative


class Confirm(ChannelRequest, tag=86):
    """CONFIRM: commit the batch, with its name and the sequence number of its last message."""

    luw: Text
    sequence: NonNegative


class Ping(ChannelRequest, tag=87):
    """PING: ask whether the receiving channel accepts connections of this sender."""


class End(ChannelRequest, tag=88):
    """END: the sender ends the conversation."""


#: The requests of a sender by the numbers of their verbs.
REQUESTS: Final[dict[int, type[ChannelRequest]]] = {
    verb_of(kind): kind
    for kind in (
        *(Introduction, Negotiation, Envelopes, PutBatch, KeepBatch, GoOn, Confirm, Ping, End),
    )
}
#: The name of each request in errors.
_NAMES: Final[dict[type[ChannelRequest], str]] = {
    Negotiation: "negotiate",
    Envelopes: "envelopes",
    PutBatch: "put_batch",
    KeepBatch: "keep_batch",
    GoOn: "go_on",
    Confirm: "confirm",
    Ping: "ping",
    End: "end",
}


def introduction_of(payload: bytes) -> Introduction:
    """Return the CONNECT request that is packed in a payload.

    Raises WrongFrame for a version other than VERSION, which is checked first, and for a malformed
    request.
    """
    versioned = decoded(list[msgspec.Raw], payload, "connect")
    version = (
        decoded(Any, bytes(versioned[1]), "connect.version") if len(versioned) > 1 else VERSION
    )
    if version != VERSION:
        text = f"message channels of version {quoted(version)} are not spoken here: {VERSION}"
        raise WrongFrame(f"connect.version: {text}")
    introduction: Introduction = decoded(Introduction, payload, "connect")
    return introduction


def channel_request_of(payload: bytes) -> ChannelRequest:
    """Return the request of a sender, after CONNECT, that is packed in a payload.

    Raises WrongFrame, whose text has the wrong field and its value. The attribute ``field`` of the
    error is ``verb`` for a number that is no verb of a sender, and for a second CONNECT.
    """
    verb = first_value(payload)
    kind = REQUESTS.get(verb) if type(verb) is int else None
    if kind is None or kind is Introduction:
        raise WrongFrame(f"verb: {quoted(verb)} is not known on a message channel", "verb")
    request: ChannelRequest = decoded(kind, payload, _NAMES[kind])
    return request


def row_of_envelope(envelope: Envelope) -> EnvelopeRow:
    """Return the wire form of a message; raises MQRC_MD_ERROR for a wrong descriptor field."""
    queue, manager, descriptor, msg_id, correl_id, life_ms, body, is_fast = envelope
    packed_one = packed_descriptor(descriptor)
    return EnvelopeRow(queue, manager, packed_one, msg_id, correl_id, life_ms, body, is_fast)


def envelope_of(row: EnvelopeRow) -> Envelope:
    """Return the message of a received row; raises WrongFrame for a malformed descriptor."""
    queue, manager, packed_one, msg_id, correl_id, life_ms, body, is_fast = row
    try:
        descriptor = descriptor_of(packed_one)
    except WrongFrame as wrong:
        raise WrongFrame(f"envelope.{wrong}") from None
    return Envelope(queue, manager, descriptor, msg_id, correl_id, life_ms, body, is_fast)


def parts(envelopes: Sequence[Envelope], max_bytes: int) -> list[list[Envelope]]:
    """Split messages into lists of at most ``max_bytes`` each, and keep their order.

    A message that is longer than ``max_bytes`` gets a list for itself. For no messages the result
    is ``[[]]``.
    """
    found: list[list[Envelope]] = [[]]
    space = max_bytes
    for envelope in envelopes:
        bytes_needed = (
            len(packed_descriptor(envelope.descriptor)) + len(envelope.body) + _HEAD_BYTES
        )
        if bytes_needed > space and found[-1]:
            found.append([])
            space = max_bytes
        space -= bytes_needed
        found[-1].append(envelope)
    return found
