"""How far each channel has come, as the store holds it."""

from __future__ import annotations

from typing import NamedTuple

from mayfly.store.keys import unpacked_keys
from mayfly.store.units import Statement

CHANNELS = "SELECT * FROM channel"
_SAVE = "INSERT OR REPLACE INTO channel VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
_FORGET = "DELETE FROM channel WHERE name = ?"
#: Values of the column ``is_started``: the state of a channel when its queue manager is opened.
INACTIVE, STARTED, STOPPED = range(3)


class ChannelRow(NamedTuple):
    """A row of the table ``channel``; see schema.sql."""

    name: str
    is_sender: int
    partner: str
    sequence: int = 0
    luw: str = ""
    wanted: int = INACTIVE
    is_reset: int = 0
    doubt_sequence: int = 0
    doubt_luw: str = ""
    doubt_keys: bytes = b""

    @property
    def is_started(self) -> bool:
        """Whether a sender is to go on when its queue manager is opened."""
        return self.wanted == STARTED

    @property
    def is_stopped(self) -> bool:
        """Whether only START CHANNEL lets it run again."""
        return self.wanted == STOPPED

    @property
    def keys(self) -> list[int]:
        """The keys of the messages in doubt."""
        return unpacked_keys(self.doubt_keys).tolist()


def save_channel(row: ChannelRow) -> Statement:
    """Return what makes the state of a channel durable."""
    return _SAVE, row


def forget_channel(name: str) -> Statement:
    """Return what removes all that is known of a channel."""
    return _FORGET, (name,)
