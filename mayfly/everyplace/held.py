"""A message as its queue holds it, and what a queue is defined with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from mayfly.everyplace.errors import EveryplaceError
from mayfly.everyplace.exchanges import Exchange
from mayfly.everyplace.fields import MessageFields
from mayfly.everyplace.rules import MessageState
from mayfly.lifetime.everyplace import check_interval_ms
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import MQError

Listener = Callable[[MessageFields], None]


@dataclass(eq=False)
class Held:
    """A message on a queue; ``exchange`` is the transmission it is part of."""

    message: MessageFields
    arrived_ms: int
    order: int
    state: MessageState
    confirm_id: int = 0
    exchange: Exchange | None = None
    #: The first stage of its transmission is known to have arrived.
    is_acknowledged: bool = False


@dataclass(frozen=True)
class QueueAttributes:
    """What a queue is defined with: interval in ms and most messages, None for no limit."""

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
