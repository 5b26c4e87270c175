"""A message as its queue holds it, the line it stands in, and what a queue is defined with."""

from __future__ import annotations

import bisect
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from mayfly.lifetime.everyplace import check_interval_ms, is_never_alive
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import MQError
from mayfly.services.everyplace.errors import EveryplaceError
from mayfly.services.everyplace.exchanges import Exchange
from mayfly.services.everyplace.fields import MSG_EXPIRE_TIME, MessageFields
from mayfly.services.everyplace.rules import MessageState

_LOG = logging.getLogger("mayfly.everyplace")

Listener = Callable[[MessageFields], None]


@dataclass(eq=False)
class Held:
    """A message on a queue; ``exchange`` is the transmission it is part of."""

    message: MessageFields
    arrived_ms: int
    state: MessageState
    confirm_id: int = 0
    exchange: Exchange | None = None
    #: The first stage of its transmission is known to have arrived.
    is_acknowledged: bool = False
    #: Lower is got first; given when it joins the queue, whatever becomes of its fields.
    place: tuple[int, int] = (0, 0)
    #: Of its row in the tables of a durable queue manager; 0 for none.
    row_id: int = 0


class Line:
    """Messages by their places, of which no two are the same."""

    def __init__(self) -> None:
        """Begin empty."""
        self._placed: list[tuple[tuple[int, int], Held]] = []

    def add(self, held: Held) -> None:
        """Put a message in its place."""
        bisect.insort(self._placed, (held.place, held))

    def remove(self, held: Held) -> None:
        """Take away a message that stands in the line."""
        del self._placed[bisect.bisect_left(self._placed, (held.place,))]

    def __iter__(self) -> Iterator[Held]:
        return (held for _, held in self._placed)

    def __len__(self) -> int:
        return len(self._placed)


@dataclass(frozen=True)
class QueueAttributes:
    """The attributes of a queue: interval in ms and most messages, None for no limit."""

    expiry_ms: int | None = None
    max_depth: int | None = None

    def __post_init__(self) -> None:
        """Raise EveryplaceError for what a queue cannot have."""
        try:
            check_interval_ms(self.expiry_ms)
        except MQError as error:
            raise EveryplaceError(error.reason, error.detail) from error
        if self.max_depth is not None and not (type(self.max_depth) is int and self.max_depth > 0):
            raise EveryplaceError(
                rc.MQRC_OPTIONS_ERROR, f"max_depth {self.max_depth!r} is neither None nor positive"
            )


def duplicate(message: MessageFields, why: str) -> EveryplaceError:
    """Return the error for a message that was put before (M16)."""
    return EveryplaceError(
        rc.MQRC_OBJECT_ALREADY_EXISTS, f"duplicate message {message.uid}: {why}; see Msg_Resend"
    )


def warn_of_width(queue: str, message: MessageFields) -> None:
    """Log an end that was over before the message was created (M15)."""
    expire_time = message.expire_time
    if expire_time is not None and is_never_alive(message.created_ms, expire_time):
        _LOG.warning(
            "%s %d of a message put on %s is %s and over before the message was created;"
            " an int is relative to the creation, a long a moment",
            MSG_EXPIRE_TIME,
            expire_time.value,
            queue,
            "a moment" if expire_time.is_absolute else "relative",
        )
