"""The status of a client of a server, as administration takes it."""

from __future__ import annotations

from typing import NamedTuple


class ClientStatus(NamedTuple):
    """One conversation of a client, see ``channel.ClientConnection``.

    ``instance`` is the number of its socket; ``request_count`` counts the messages both ways.
    """

    number: int
    instance: int
    queue_manager: str
    channel: str
    user: str
    address: str
    application: str
    has_tls: bool
    connected_ms: int
    request_count: int
    heartbeat_ms: int
    sent_bytes: int
    received_bytes: int
    sending_manager: str = ""
