"""Sockets that send what is written at once."""

from __future__ import annotations

import asyncio
import socket
from typing import Final

_INTERNET: Final = frozenset({socket.AF_INET, socket.AF_INET6})


def send_at_once(transport: asyncio.BaseTransport) -> None:
    """Turn Nagle's algorithm off on an accepted connection: TCP_NODELAY.

    With it a second answer waits until the client's system acknowledges the first one, 40 ms later
    where the client sends nothing meanwhile. asyncio turns it off for addresses that it has looked
    up, but not where a server listens on a numeric address.
    """
    accepted = transport.get_extra_info("socket")
    if accepted is not None and accepted.family in _INTERNET:
        accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
