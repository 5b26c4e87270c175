"""The status of the connections of a server, as DISPLAY CONN and DISPLAY CHSTATUS show it."""

from __future__ import annotations

from typing import NamedTuple


class ConnectionStatus(NamedTuple):
    """One conversation of a connection.

    ``number`` is that of the conversation on its queue manager, ``instance`` that of the socket,
    which several conversations may share. ``address`` is empty for a UNIX socket. Times are the
    queue manager's, in ms since 1970: of the connect, and of the first verb of the open unit of
    work, None without one. ``is_running`` is True while a verb is under way. Both ends send
    something at least every ``heartbeat_ms``; 0 is no such promise. The bytes are those of the
    socket.
    ``sending_manager`` is the queue manager of a message channel, empty for a program.
    """

    number: int
    instance: int
    queue_manager: str
    channel: str
    user: str
    address: str
    application: str
    is_operator: bool
    has_tls: bool
    connected_ms: int
    unit_of_work_ms: int | None
    open_handles: int
    request_count: int
    is_running: bool
    heartbeat_ms: int = 0
    sent_bytes: int = 0
    received_bytes: int = 0
    sending_manager: str = ""
