"""What a server allows its clients, however many or hostile they are."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits of one server.

    ``connections`` counts sockets. ``outstanding_bytes`` may wait for a client that does not read,
    of each connection; then nothing more is read from it. A connection that has not said who it is
    within ``admission_ms`` is closed. ``heartbeat_ms`` is the longest interval of heartbeats,
    whatever a channel says; 0 is no limit.
    """

    connections: int = 10_000
    outstanding_bytes: int = 1_048_576
    admission_ms: int = 30_000
    heartbeat_ms: int = 0
