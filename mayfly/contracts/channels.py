"""What a sender channel and its receiver say to each other over Arrow Flight.

A call is answered by ``{"answer": …}``, by ``{"refused": reason code, "text": …}``, or by
``{"down": text}`` from a receiver that has ended, whatever the call had done by then.
"""

from __future__ import annotations

from typing import NamedTuple

from mayfly.contracts.columns import Column, Kind, always

#: Both ends must speak the same; it is part of the first call.
VERSION = 3
PING, BEGIN, GO_ON, CONFIRM, END = (
    f"channel-{verb}" for verb in ("ping", "begin", "go-on", "confirm", "end")
)
#: The upload of a batch.
SEND = "channel-send"
LINK, OPENING = "link", "opening"
ANSWER, REFUSED, DOWN, TEXT = "answer", "refused", "down", "text"

#: A message on its way; ``descriptor`` as it is stored (mqi/descriptor.py), ``life_ms`` null
#: without end.
COLUMNS: tuple[Column, ...] = (
    always("queue", Kind.TEXT),
    always("manager", Kind.TEXT),
    always("descriptor", Kind.BYTES),
    always("msg_id", Kind.BYTES),
    always("correl_id", Kind.BYTES),
    Column("life_ms", Kind.INT64),
    always("body", Kind.BYTES),
    always("is_fast", Kind.FLAG),
)


class PackedParcel(NamedTuple):
    """One row of COLUMNS."""

    queue: str
    manager: str
    descriptor: bytes
    msg_id: bytes
    correl_id: bytes
    life_ms: int | None
    body: bytes
    is_fast: bool


class Opening(NamedTuple):
    """What a sender says of itself: ``sequence`` is that of the last message both are sure of.

    With ``is_reset`` the receiver takes it over. It speaks at least every ``heartbeat_s``, 0 for
    whenever it has something to say. ``instance_id`` tells queue managers of one name apart.
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
    """What a receiver says of itself: the last batch it has committed, and what it can take."""

    manager: str
    luw: str
    sequence: int
    batch_size: int
    max_message_bytes: int
