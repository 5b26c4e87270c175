"""Clients of HTTP as administration knows them: DISPLAY shows them, and STOP ends them."""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable, Iterable, Iterator

from mayfly.servers.clients import ClientStatus
from mayfly.servers.http.line import Line

#: APPLTAG, and MQMD.PutApplName.
APPLICATION = "HTTP"
#: Where tcp_info of Linux has the bytes that were acknowledged, and those that came.
_BYTES_OFFSET, _TCP_INFO_BYTES = 120, 136


class HttpClients:
    """The clients of one server; any thread may call its methods."""

    def __init__(self, lines: Callable[[], Iterable[Line]]) -> None:
        """Take the function that returns the connections there are."""
        self._lines = lines

    def connections(self) -> list[ClientStatus]:
        """Return the status of each conversation, and of each client that has none at present.

        A client that sends administrative requests alone has none. Its number is negative.
        """
        return [status for line in self._lines() for status in _statuses(line)]

    def end(self, number: int) -> bool:
        """End the connection that has a conversation of this number; False when there is none.

        A message that it holds goes back; one that was put stays.
        """
        line = self._find(number)
        if line is not None:
            line.end()
        return line is not None

    def quiesce(self, number: int) -> bool:
        """Let that connection end behind its request; a wait for a message ends at once."""
        line = self._find(number)
        if line is not None:
            line.quiesce()
        return line is not None

    def _find(self, number: int) -> Line | None:
        return next(
            (line for line in self._lines() for found in _statuses(line) if found.number == number),
            None,
        )


def _statuses(line: Line) -> Iterator[ClientStatus]:
    peer, numbers = line.peer, line.conversation_numbers()
    sent_bytes, received_bytes = _bytes_of(line)
    for place, entered in line.places():
        own = numbers.get((place.queue_manager, place.channel)) or [-line.number]
        for position, number in enumerate(own):
            yield ClientStatus(
                number,
                line.number,
                place.queue_manager,
                place.channel,
                entered.user,
                peer.address,
                APPLICATION,
                peer.has_tls,
                entered.connected_ms,
                0 if position else line.request_count,
                0,
                sent_bytes,
                received_bytes,
            )


def _bytes_of(line: Line) -> tuple[int, int]:
    """Return the bytes sent and received by the socket of a line; 0 where nobody counts them."""
    option = getattr(socket, "TCP_INFO", None)
    if option is None or line.socket is None:
        return 0, 0
    try:
        told = line.socket.getsockopt(socket.IPPROTO_TCP, option, _TCP_INFO_BYTES)
    except OSError:
        # It has been closed since.
        return 0, 0
    if len(told) < _TCP_INFO_BYTES:
        return 0, 0
    sent_bytes, received_bytes = struct.unpack_from("QQ", told, _BYTES_OFFSET)
    return sent_bytes, received_bytes
