"""How a channel stands, as DISPLAY CHSTATUS shows it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Status(StrEnum):
    """The states of a channel."""

    #: Not started, or ended after DISCINT without work.
    INACTIVE = "INACTIVE"
    STARTING = "STARTING"
    RUNNING = "RUNNING"
    #: Waits before it tries to reach its partner again, or to send what was refused there.
    RETRYING = "RETRYING"
    #: Waits before a put is tried again at the receiver (MRTMR).
    PAUSED = "PAUSED"
    #: Ends the batch under way before it stops.
    STOPPING = "STOPPING"
    #: Ended by STOP CHANNEL, after all retries, or by what no retry would mend; only START CHANNEL
    #: starts it again, however often its queue manager is closed and opened.
    STOPPED = "STOPPED"


@dataclass(frozen=True, slots=True)
class ChannelStatus:
    """One channel at one moment.

    ``message_count`` and ``batch_count`` run from the start of the channel, ``last_message_ms`` is
    when the last of these messages was handed over, None without one; ``sequence`` and
    ``luw`` are those of the last batch that both sides are sure of, ``current_*`` those of one in
    doubt, else the same. ``failure`` says why it retries or has stopped. ``heartbeat_s`` is what
    both sides have agreed on; it and the bytes are 0 while the channel has no connection, and the
    bytes are 0 within a process.
    """

    name: str
    is_sender: bool
    status: Status
    connection: str
    partner: str
    transmission_queue: str
    message_count: int
    batch_count: int
    last_message_ms: int | None
    sequence: int
    current_sequence: int
    luw: str
    current_luw: str
    is_in_doubt: bool
    short_retries_left: int
    long_retries_left: int
    failure: str
    heartbeat_s: int
    sent_bytes: int
    received_bytes: int
