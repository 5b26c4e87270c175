"""Requests of one queue manager to another over a link: each is plain data.

A request names an operation and a queue. The other side carries it out (`manager.py`), at once or,
by a fault of the link, later, twice or never.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

from mayfly.services.everyplace.fields import MessageFields, MessageUid

#: The answer to a request.
R = TypeVar("R")


@dataclass(frozen=True)
class Request(Generic[R]):
    """One request about a queue of the other side, by its name."""

    queue: str


# Transmission, in two stages (M12)


@dataclass(frozen=True)
class HoldMessage(Request[None]):
    """First stage: hold a message where nobody sees it."""

    message: MessageFields


@dataclass(frozen=True)
class Admit(Request[None]):
    """Second stage: make the message of this exchange available."""


@dataclass(frozen=True)
class Withdraw(Request[None]):
    """Forget the message of this exchange, which has expired at its sender (M13)."""


# Pulling, in two steps (M6)


@dataclass(frozen=True)
class Offer(Request[MessageFields | None]):
    """Lock and show the next message that is kept for the queue; None when there is none."""


@dataclass(frozen=True)
class Stored(Request[None]):
    """Remove the message of this exchange, which is stored at the home of its queue now."""


# Calls on a synchronous remote queue


@dataclass(frozen=True)
class Call(Request[R]):
    """A call on a queue of the other side; done once."""


@dataclass(frozen=True)
class Add(Call[None]):
    """Add a message; with a confirm id it is not available before it is confirmed."""

    message: MessageFields
    confirm_id: int


@dataclass(frozen=True)
class ConfirmPut(Call[None]):
    """Make a message available that was put under a confirm id."""

    uid: MessageUid


@dataclass(frozen=True)
class Take(Call[MessageFields | None]):
    """Get the next message."""

    confirm_id: int


@dataclass(frozen=True)
class ConfirmGet(Call[None]):
    """Remove a message that was got under a confirm id."""

    uid: MessageUid


@dataclass(frozen=True)
class Undo(Call[int]):
    """Take back the unconfirmed puts and gets under an id."""

    confirm_id: int


@dataclass(frozen=True)
class Delete(Call[None]):
    """Remove an available message by its identity."""

    uid: MessageUid


@dataclass(frozen=True)
class Browse(Call[list[MessageFields]]):
    """Return copies of the available messages."""


@dataclass(frozen=True)
class Size(Call[int]):
    """Return how many messages there are, expired ones removed (M10)."""


@dataclass(frozen=True)
class DeleteQueue(Call[None]):
    """Delete the queue as its own queue manager would (M9)."""
