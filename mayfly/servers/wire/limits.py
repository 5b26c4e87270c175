"""The limits of a server, which hold for any number of clients, also hostile ones."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits of one server.

    ``connections`` is the number of sockets. When ``outstanding_bytes`` of one connection wait for
    a client that does not read, nothing more is read from the client. A connection is closed when
    no client is admitted on it within ``admission_ms``. ``heartbeat_ms`` is the longest interval of
    heartbeats; 0 is no limit.
    """

    connections: int = 10_000
    outstanding_bytes: int = 1_048_576
    admission_ms: int = 30_000
    heartbeat_ms: int = 0
