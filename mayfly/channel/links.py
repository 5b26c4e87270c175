"""The interface between a sender and its receiver: the calls of a link, its errors, batch names."""

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


#: The traffic of a link within one process.
NO_TRAFFIC = Traffic(0, 0)


class Link(Protocol):
    """One connection from a sender to its receiver, used by one thread; any thread may close it.

    Every call raises LinkDown or another OSError, or the MQError by which the receiver refuses it.
    Any other error is a programming error in the link, and stops the channel. A receiver that waits
    before it repeats a put returns the wait in ms; after it the sender calls :meth:`go_on`.
    """

    def negotiate(self, opening: Opening) -> ReceiverState:
        """Begin to send; return the state and the limits of the receiver.

        An earlier sender of that queue manager on this channel is refused from now on.
        """

    def send(self, envelopes: Sequence[Envelope]) -> int | None:
        """Put a batch of unlimited lives.

        Return ms to wait before :meth:`go_on`, or None when done.
        """

    def hand_over(self, envelopes: Sequence[Envelope]) -> int:
        """Hand over the messages of a batch, which :meth:`go_on` puts.

        Returns how many ms of the call's duration the receiver has had them.
        """

    def go_on(self, transit_ms: int) -> int | None:
        """Put the messages handed over, or try again; the result is that of :meth:`send`.

        ``transit_ms`` is how long the batch was on the link. It is subtracted from each life.
        """

    def confirm(self, luw: str, sequence: int) -> None:
        """Commit the messages handed over, durably together with the name of the batch."""

    def ping(self, channel: str) -> None:
        """Return if the receiver of a channel answers.

        Raises LinkDown, or the MQError that refuses.
        """

    def traffic(self) -> Traffic:
        """Return the bytes that this end has sent and received; any thread may call it."""

    def close(self) -> None:
        """End the link; the receiver backs out unconfirmed messages."""


def luw_name(instance_id: str, unique: bytes) -> str:
    """Return the name of a batch: the start of its sender's instance id, and a unique part."""
    return f"{_owner(instance_id)}.{unique.hex().upper()}"


def is_batch_of(luw: str, instance_id: str) -> bool:
    """Return True if a batch may be of the queue manager with this instance id.

    A batch without a name may be of any.
    """
    owner, _, _ = luw.rpartition(".")
    return owner in ("", _owner(instance_id))


def _owner(instance_id: str) -> str:
    """Return the first digits of an instance id, as the name of a batch has them."""
    return instance_id[:_OWNER_LENGTH].upper()


def end_link(link: Link) -> None:
    """Close a link; an error of the close is logged and not raised."""
    try:
        link.close()
    except Exception as error:  # noqa: BLE001 - a link is not ours, and what is behind it goes on
        _LOG.warning("a link was not closed well: %r", error)


def original_of(envelope: Envelope) -> Original:
    """Return a message on its way as the original that a report is about."""
    return Original(
        envelope.descriptor, envelope.msg_id, envelope.correl_id, envelope.body, envelope.life_ms
    )


def refused_envelope(
    manager: Engine, definition: ChannelDefinition, envelope: Envelope
) -> Undeliverable:
    """Return a message that a channel cannot deliver, with its target queue.

    USEDLQ of the channel decides whether it may become a dead letter.
    """
    target = full_name(envelope.queue, envelope.manager, manager.name)
    return Undeliverable(original_of(envelope), target, definition.usedlq == MQUSEDLQ_YES)
