"""Verbs, requests and answers between a sender channel and its receiver (docs/WIRE.md).

A conversation begins with CONNECT, which names the version of the verbs that follow. A request is
an array: first the number of its verb, then its fields in order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Final, NamedTuple, TypeAlias

import msgspec

from mayfly.mqi.descriptor import Descriptor
from mayfly.verbs.contracts.wire import (
    AT_MAX,
    Natural,
    PackedDescriptor,
    Positive,
    Text,
    Whole,
    WholeId,
    WrongFrame,
    decoded,
    descriptor_of,
    first_of,
    packed,
    packed_descriptor,
    shown,
    verb_of,
)

#: Both ends must speak the same.
VERSION: Final = 5
#: Bytes of a message in a frame beside its data and its descriptor: names, ids, lengths.
_HEAD_BYTES: Final = 400


class Welcome(NamedTuple):
    """The answer to CONNECT: the receiving queue manager, and how often both sides speak."""

    queue_manager: Text
    heartbeat_ms: Natural


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


class ReceiverState(NamedTuple):
    """The state of a receiver: the last batch that it has committed, and its limits."""

    manager: Text
    luw: Text
    sequence: Natural
    batch_size: Positive
    max_message_bytes: Natural


class Envelope(NamedTuple):
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


class EnvelopeRow(NamedTuple):
    """A message on its way, as it travels: a :class:`Envelope` with its descriptor packed."""

    queue: Text
    manager: Text
    descriptor: PackedDescriptor
    msg_id: WholeId
    correl_id: WholeId
    life_ms: Natural | None
    body: bytes
    is_fast: bool


_Envelopes: TypeAlias = Annotated[list[EnvelopeRow], AT_MAX]


class ChannelRequest(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    """A request of a sender; none has the number of a verb of `verbs.requests`."""

    #: The type of its answer.
    ANSWER: ClassVar[Any] = type(None)


class Introduction(ChannelRequest, tag=80):
    """CONNECT: the sending queue manager, and the channel and queue manager that receive.

    A blank ``queue_manager`` means the one that is served, when the server serves just one. A
    blank ``token`` shows none. With ``heartbeat_ms`` 0 the server sends no signs of life.
    """

    ANSWER = Welcome

    version: Whole
    channel: Text
    queue_manager: Text
    sending_manager: Text
    token: Text
    heartbeat_ms: Natural


class Negotiation(ChannelRequest, tag=81):
    """NEGOTIATE: an opening without the names, which were in CONNECT; PING needs none."""

    ANSWER = ReceiverState

    sequence: Natural
    batch_size: Positive
    max_message_bytes: Natural
    is_reset: bool
    heartbeat_s: Natural
    instance_id: Text


class Envelopes(ChannelRequest, tag=82):
    """PARCELS: a part of a batch that is too long for one frame; the first such frame begins it."""

    envelopes: _Envelopes


class PutBatch(ChannelRequest, tag=83):
    """PUT_BATCH: the number of messages of the batch, and those not yet sent; put them all now.

    The answer is None, or the ms after which the sender may send GO_ON.
    """

    ANSWER = Natural | None

    message_count: Natural
    envelopes: _Envelopes


class KeepBatch(ChannelRequest, tag=84):
    """KEEP_BATCH: as PUT_BATCH, but keep the messages until GO_ON.

    The answer is how many ms ago the receiver began to take the batch.
    """

    ANSWER = Natural

    message_count: Natural
    envelopes: _Envelopes


class GoOn(ChannelRequest, tag=85):
    """GO_ON: the time in ms that the batch was on the link; the answer is that of PUT_BATCH."""

    ANSWER = Natural | None

    transit_ms: Natural


class Confirm(ChannelRequest, tag=86):
    """CONFIRM: the name of the batch, and the number of its last message."""

    luw: Text
    sequence: Natural


class Ping(ChannelRequest, tag=87):
    """PING: is the receiver of the channel there?"""


class End(ChannelRequest, tag=88):
    """END: the sender ends."""


#: The requests of a sender by the numbers of their verbs.
REQUESTS: Final[dict[int, type[ChannelRequest]]] = {
    verb_of(kind): kind
    for kind in (
        *(Introduction, Negotiation, Envelopes, PutBatch, KeepBatch, GoOn, Confirm, Ping, End),
    )
}
#: The name of each request in errors.
_SAID: Final[dict[type[ChannelRequest], str]] = {
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
    """Return the CONNECT that came; raises WrongFrame, for another version before anything else."""
    versioned = decoded(list[msgspec.Raw], payload, "connect")
    version = (
        decoded(Any, bytes(versioned[1]), "connect.version") if len(versioned) > 1 else VERSION
    )
    if version != VERSION:
        text = f"message channels of version {shown(version)} are not spoken here: {VERSION}"
        raise WrongFrame(f"connect.version: {text}")
    introduction: Introduction = decoded(Introduction, payload, "connect")
    return introduction


def channel_request_of(payload: bytes) -> ChannelRequest:
    """Return a request that came behind CONNECT; raises WrongFrame naming field and value.

    The field of the error is ``verb`` for a number that is no verb of a sender.
    """
    verb = first_of(payload)
    kind = REQUESTS.get(verb) if type(verb) is int else None
    if kind is None or kind is Introduction:
        raise WrongFrame(f"verb: {shown(verb)} is not known on a message channel", "verb")
    request: ChannelRequest = decoded(kind, payload, _SAID[kind])
    return request


def row_of_envelope(envelope: Envelope) -> EnvelopeRow:
    queue, manager, descriptor, msg_id, correl_id, life_ms, body, is_fast = envelope
    packed_one = packed_descriptor(descriptor)
    return EnvelopeRow(queue, manager, packed_one, msg_id, correl_id, life_ms, body, is_fast)


def envelope_of(row: EnvelopeRow) -> Envelope:
    """Return a message that has travelled; raises WrongFrame for a wrong descriptor."""
    queue, manager, packed_one, msg_id, correl_id, life_ms, body, is_fast = row
    try:
        descriptor = descriptor_of(packed_one)
    except WrongFrame as wrong:
        raise WrongFrame(f"envelope.{wrong}") from None
    return Envelope(queue, manager, descriptor, msg_id, correl_id, life_ms, body, is_fast)


def packed_request(request: ChannelRequest) -> bytes:
    """Return a request as it travels; raises ValueError for a value that cannot travel."""
    return packed(request)


def parts(envelopes: Sequence[Envelope], max_bytes: int) -> list[list[Envelope]]:
    """Return messages in parts of at most ``max_bytes``; one that is longer is a part alone.

    There is at least one part, which is empty for no messages.
    """
    found: list[list[Envelope]] = [[]]
    room = max_bytes
    for envelope in envelopes:
        bytes_needed = (
            len(packed_descriptor(envelope.descriptor)) + len(envelope.body) + _HEAD_BYTES
        )
        if bytes_needed > room and found[-1]:
            found.append([])
            room = max_bytes
        room -= bytes_needed
        found[-1].append(envelope)
    return found
