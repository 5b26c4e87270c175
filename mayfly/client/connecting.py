"""``mayfly.connect``: a client by the name of a queue manager, or by a URL."""

from __future__ import annotations

from mayfly import connection
from mayfly.client.client import Client


def connect(name: str, *, user: str | None = None, transacted: bool = False) -> Client:
    """Connect to a queue manager (docs/CLIENTS.md)."""
    return Client(connection.connect(name, user), transacted=transacted)
