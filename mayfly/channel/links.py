"""How a sender speaks to its receiver: the calls of a link, how they fail, names of batches."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import NamedTuple, Protocol

from mayfly.engine import Engine, full_name
from mayfly.engine.api.transit import ChannelDefinition, Undeliverable
from mayfly.lifetime.reports import Original
from mayfly.mqi.constants import MQUSEDLQ_YES
from mayfly.verbs.contracts.channels import Envelope, Opening, ReceiverState

_LOG = logging.getLogger("mayfly.channel")
#: The application name of the sessions of channels.
PROGRAM = "mayfly channel"
#: Digits of an instance id in the name of a batch: 64 bits.
_OWNER_LENGTH = 16


class LinkDown(ConnectionError):
    """The partner cannot be reached or has not answered: the call may have taken effect."""


class Traffic(NamedTuple):
    """The bytes of one connection, as its own end counts them."""

    sent_bytes: int
    received_bytes: int


#: Of a link that leads to a queue manager of the same process.
NO_TRAFFIC = Traffic(0, 0)


class Link(Protocol):
    """One connection from a sender to its receiver, used by one thread; any may close it.

    Every call raises LinkDown or another OSError, or the MQError for which the receiver refuses it.
    Any other error is a mistake in the link, and stops the channel. A receiver that waits before it
    tries a put again says for how long; :meth:`go_on` is called then.
    """

    def negotiate(self, opening: Opening) -> ReceiverState:
        """Begin; an earlier sender of that manager on this channel is refused from now on."""

    def send(self, envelopes: Sequence[Envelope]) -> int | None:
        """Let the messages of a batch be put, no life to be shortened; a wait in ms, or None."""

    def hand_over(self, envelopes: Sequence[Envelope]) -> int:
        """Hand over the messages of a batch, which :meth:`go_on` puts.

        Returns for how many ms of the call the receiver had them.
        """

    def go_on(self, transit_ms: int) -> int | None:
        """Let what was handed over be put, or try again after a wait; a wait in ms, or None.

        ``transit_ms`` is how long the batch was on the link.
        """

    def confirm(self, luw: str, sequence: int) -> None:
        """Commit what was handed over, durably together with the name of the batch."""

    def ping(self, channel: str) -> None:
        """Raise LinkDown, or why the receiver of a channel refuses, unless it answers."""

    def traffic(self) -> Traffic:
        """Return the bytes that this end has sent and received; any thread may ask."""

    def close(self) -> None:
        """End; unconfirmed messages are backed out there."""


def luw_name(instance_id: str, unique: bytes) -> str:
    """Return the name of a batch: a part of its sender's instance id, and a unique part."""
    return f"{_owner(instance_id)}.{unique.hex().upper()}"


def is_batch_of(luw: str, instance_id: str) -> bool:
    """Return True if a batch may be of this queue manager: an empty name may be any."""
    owner, _, _ = luw.rpartition(".")
    return owner in ("", _owner(instance_id))


def _owner(instance_id: str) -> str:
    return instance_id[:_OWNER_LENGTH].upper()


def end_link(link: Link) -> None:
    """Close a link; it has ended even when that fails, which is logged."""
    try:
        link.close()
    except Exception as error:  # noqa: BLE001 - a link is not ours, and what is behind it goes on
        _LOG.warning("a link was not closed well: %r", error)


def original_of(envelope: Envelope) -> Original:
    """Return a parcel as the original of a report."""
    return Original(
        envelope.descriptor, envelope.msg_id, envelope.correl_id, envelope.body, envelope.life_ms
    )


def refused_envelope(
    manager: Engine, definition: ChannelDefinition, envelope: Envelope
) -> Undeliverable:
    """Return a message that a channel cannot deliver; USEDLQ says if it may be a dead letter."""
    target = full_name(envelope.queue, envelope.manager, manager.name)
    return Undeliverable(original_of(envelope), target, definition.usedlq == MQUSEDLQ_YES)
