"""What the tests of Everyplace queues share: rules that remember, messages, and refusals."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from mayfly.everyplace import (
    MSG_EXPIRE_TIME,
    EveryplaceError,
    EveryplaceQueueManager,
    MessageFields,
    QueueEntry,
    QueueRule,
)
from mayfly.lifetime.everyplace import Timepiece

START_MS = 1_700_000_000_000


class Remembering(QueueRule):
    """Remembers what expired: text, entry, and the size of the queue seen from inside."""

    def __init__(self) -> None:
        self.expired: list[str] = []
        self.entries: list[QueueEntry] = []

    def message_expired(self, entry: QueueEntry, message: MessageFields) -> bool:
        self.expired.append(text_of(message))
        self.entries.append(entry)
        return False


def text(
    clock: Timepiece,
    said: str = "x",
    *,
    relative_ms: int | None = None,
    at_ms: int | None = None,
) -> MessageFields:
    """Create a message now, with an end of its own if one is given."""
    message = MessageFields(clock=clock)
    message.put_ascii("MsgData", said)
    if relative_ms is not None:
        message.put_int(MSG_EXPIRE_TIME, relative_ms)
    if at_ms is not None:
        message.put_long(MSG_EXPIRE_TIME, at_ms)
    return message


def text_of(message: MessageFields | None) -> str:
    """Return what a message says; "-" for none."""
    return "-" if message is None else message.get_ascii("MsgData")


def take(manager: EveryplaceQueueManager, queue: str = "Q") -> str:
    """Get a message and return what it says."""
    return text_of(manager.get_message(queue))


def seen(manager: EveryplaceQueueManager, queue: str = "Q") -> list[str]:
    """Browse and return what the messages say."""
    return [text_of(message) for message in manager.browse_messages(queue)]


def refused(reason: int, call: Callable[[], object]) -> str:
    """Call what must be refused for a reason; return what the error says."""
    with pytest.raises(EveryplaceError) as caught:
        call()
    assert caught.value.reason == reason
    return str(caught.value)
