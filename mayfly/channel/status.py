"""The status of a channel, as DISPLAY CHSTATUS shows it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class ChannelState(StrEnum):
    """The states of a channel."""

    #: Not started, or ended after DISCINT without work.
    INACTIVE = "INACTIVE"
    STARTING = "STARTING"
    RUNNING = "RUNNING"
    #: Waits before it connects or sends again after a failure.
    RETRYING = "RETRYING"
    #: Waits before a put is tried again at the receiver (MRTMR).
    PAUSED = "PAUSED"
    #: Ends the batch under way before it stops.
    STOPPING = "STOPPING"
    #: Ended by STOP CHANNEL, after all retries, or by an error that no retry would resolve. Only
    #: START CHANNEL starts it again, also after a restart of its queue manager.
    STOPPED = "STOPPED"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelStatus:
    """The attributes of one channel at one moment; those with a default are of a sender alone.

    ``message_count`` and ``batch_count`` count from the start of the channel. ``last_message_ms``
    is when the last message was handed over, ms since 1970, None without one. ``sequence`` and
    ``luw`` are those of the last batch that both sides have committed, ``current_*`` those of a
    batch in doubt, otherwise the same. ``failure`` is the reason of a retry or stop.
    ``heartbeat_s`` is the interval agreed by both sides. It and the bytes are 0 while the channel
    is not connected; the bytes are 0 within a process.
    """

    name: str
    is_sender: bool
    status: ChannelState
    connection: str
    partner: str
    transmission_queue: str = ""
    message_count: int
    batch_count: int
    last_message_ms: int | None
    sequence: int
    current_sequence: int
    luw: str
    current_luw: str
    is_in_doubt: bool = False
    short_retries_left: int = 0
    long_retries_left: int = 0
    failure: str = ""
    heartbeat_s: int
    sent_bytes: int
    received_bytes: int
