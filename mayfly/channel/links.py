"""The links between senders and receivers: their calls, their errors, and names of batches."""

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


class ReceiverLink(Protocol):
    """One connection from a sender to its receiver, used by one thread; any thread may close it.

    Every call raises LinkDown or another OSError, or the MQError by which the receiver refuses it.
    Any other error is a programming error in the link, and stops the channel. A receiver that waits
    before it repeats a put returns the wait in ms; after it the sender calls :meth:`go_on`.
    """

    def negotiate(self, opening: Opening) -> ReceiverState:
        """Tell the receiver the sender's state; return the state and the limits of the receiver.

        ``opening`` has the sender's state and limits. An earlier sender of that queue manager on
        this channel is refused from now on. Raises LinkDown, and the MQError by which the receiver
        refuses.
        """

    def send(self, envelopes: Sequence[Envelope]) -> int | None:
        """Put a batch of messages without expiry at the receiver; :meth:`confirm` commits it.

        Returns the ms to wait before :meth:`go_on`, or None when all messages are put. Raises
        LinkDown, and the MQError of a message that the receiver cannot put anywhere.
        """

    def send_to_keep(self, envelopes: Sequence[Envelope]) -> int:
        """Send the messages of a batch, which the receiver keeps until :meth:`go_on` puts them.

        Returns for how many ms, at the end of the call, the receiver has had them.
        """

    def go_on(self, transit_ms: int) -> int | None:
        """Put the kept messages at the receiver, or repeat a put that failed.

        ``transit_ms`` is how long the batch was on the link. It is subtracted from the time to live
        of each message. The result is that of :meth:`send`.
        """

    def confirm(self, luw: str, sequence: int) -> None:
        """Commit the messages of the batch at the receiver, durably together with its name.

        ``luw`` is the name, ``sequence`` the number of the last message. Raises LinkDown when the
        outcome is unknown, and the MQError of a commit that has failed.
        """

    def ping(self, channel: str) -> None:
        """Check that the receiver of a channel accepts; return nothing.

        Raises LinkDown without an answer, or the MQError by which the receiver refuses.
        """

    def traffic(self) -> Traffic:
        """Return the bytes that this end has sent and received; any thread may call it."""

    def close(self) -> None:
        """End the link; the receiver backs out unconfirmed messages."""


def luw_name(instance_id: str, unique: bytes) -> str:
    """Return the name of a batch, ``<16 digits>.<hex>``, from its sender's instance id and bytes.

    ``unique`` are bytes that no other batch of that sender has.
    """
    return f"{_owner(instance_id)}.{unique.hex().upper()}"


def is_batch_of(luw: str, instance_id: str) -> bool:
    """Return True if the queue manager with this instance id may have sent a batch.

    The name ``luw`` of the batch shows this. A batch without a name may come from any.
    """
    owner, _, _ = luw.rpartition(".")
    return owner in ("", _owner(instance_id))


def _owner(instance_id: str) -> str:
    """Return the first 16 digits of an instance id in upper case, as names of batches have them."""
    return instance_id[:_OWNER_LENGTH].upper()


def end_link(link: ReceiverLink) -> None:
    """Close a link; an error of the close is logged and not raised."""
    try:
        link.close()
    except Exception as error:  # noqa: BLE001 - a link is not ours, and what is behind it goes on
        _LOG.warning("a link was not closed well: %r", error)


def original_of(envelope: Envelope) -> Original:
    """Return a message on a channel in the form from which reports are made."""
    return Original(
        envelope.descriptor, envelope.msg_id, envelope.correl_id, envelope.body, envelope.life_ms
    )


def refused_envelope(
    manager: Engine, definition: ChannelDefinition, envelope: Envelope
) -> Undeliverable:
    """Return a message that a channel cannot deliver, with the queue to which it was addressed.

    ``envelope`` is the message as it travels. USEDLQ of the channel decides whether it may go to
    the dead-letter queue.
    """
    target = full_name(envelope.queue, envelope.manager, manager.name)
    return Undeliverable(original_of(envelope), target, definition.usedlq == MQUSEDLQ_YES)
