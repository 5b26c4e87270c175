"""The requests that one queue manager sends to another over a link: each is plain data.

A request names an operation and a queue. The other side carries it out (`manager.py`): at once, or,
after a fault of the link, later, twice or never.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

from mayfly.services.everyplace.fields import MessageFields, MessageUid

#: The answer to a request.
R = TypeVar("R")


@dataclass(frozen=True)
class LinkRequest(Generic[R]):
    """A request about the receiver's queue of this name; ``R`` is the type of the answer."""

    queue: str


# Transmission, in two stages (M12)


@dataclass(frozen=True)
class HoldMessage(LinkRequest[None]):
    """First stage: store a message that gets and browses do not see yet."""

    message: MessageFields


@dataclass(frozen=True)
class Admit(LinkRequest[None]):
    """Second stage: make the message that this exchange has stored available.

    An exchange is a numbered transmission.
    """


@dataclass(frozen=True)
class Withdraw(LinkRequest[None]):
    """Delete the message of this exchange, because it has expired at its sender (M13)."""


# Pulling, in two steps (M6)


@dataclass(frozen=True)
class Offer(LinkRequest[MessageFields | None]):
    """Lock the next message for the queue and answer a copy of it.

    None if no message is available.
    """


@dataclass(frozen=True)
class Stored(LinkRequest[None]):
    """Delete the message of this exchange, which the receiver of the pull has stored."""


# Calls on a synchronous remote queue


@dataclass(frozen=True)
class QueueCall(LinkRequest[R]):
    """A call on a queue of the other side; a second arrival of it has no effect."""


@dataclass(frozen=True)
class Add(QueueCall[None]):
    """Put a message; with a confirm id other than 0 it is available after the confirmation."""

    message: MessageFields
    confirm_id: int


@dataclass(frozen=True)
class ConfirmPut(QueueCall[None]):
    """Make a message available that was put with a confirm id."""

    uid: MessageUid


@dataclass(frozen=True)
class Take(QueueCall[MessageFields | None]):
    """Get the next message; None if no message is available. With a confirm id it stays locked."""

    confirm_id: int


@dataclass(frozen=True)
class ConfirmGet(QueueCall[None]):
    """Delete a message that was got with a confirm id."""

    uid: MessageUid


@dataclass(frozen=True)
class Undo(QueueCall[int]):
    """Undo the unconfirmed puts and gets with this confirm id, and answer their number."""

    confirm_id: int


@dataclass(frozen=True)
class Delete(QueueCall[None]):
    """Delete an available message by its identity."""

    uid: MessageUid


@dataclass(frozen=True)
class Browse(QueueCall[list[MessageFields]]):
    """Answer copies of the available messages."""


@dataclass(frozen=True)
class Size(QueueCall[int]):
    """Answer the number of messages, after the expired ones were removed (M10)."""


@dataclass(frozen=True)
class DeleteQueue(QueueCall[None]):
    """Delete the queue as ``delete_queue`` of its queue manager does (M9)."""
