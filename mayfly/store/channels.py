"""The stored state of each channel: sequence number, and messages in doubt."""

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
    """A row of the table ``channel``; see schema.sql.

    ``wanted`` is INACTIVE, STARTED or STOPPED, in the column ``is_started``.
    """

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
        """Whether the sender channel starts when its queue manager is opened."""
        return self.wanted == STARTED

    @property
    def is_stopped(self) -> bool:
        """Whether the channel was stopped, and runs again only after START CHANNEL."""
        return self.wanted == STOPPED

    @property
    def keys(self) -> list[int]:
        """The keys of the messages in doubt, empty for none."""
        return unpacked_keys(self.doubt_keys).tolist()


def save_channel(row: ChannelRow) -> Statement:
    """Return the SQL statement that stores the state of a channel, or replaces it."""
    return _SAVE, row


def forget_channel(name: str) -> Statement:
    """Return the SQL statement that deletes the state of a channel, for all its partners."""
    return _FORGET, (name,)
