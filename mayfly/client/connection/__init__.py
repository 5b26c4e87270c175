"""Connections: programs, facades and servers use a queue manager by these, wherever it is.

``connect`` connects by name, in this process or over a network (docs/CONNECTION.md). A client of a
server elsewhere loads no engine: a connection in this process is imported when it is asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mayfly.client.connection.by_name import connect
from mayfly.client.connection.interface import Connection, OnDone, UnderWay
from mayfly.client.connection.operating import Administration, ClientClaims, Schedule
from mayfly.verbs.messages import Settlement

if TYPE_CHECKING:
    from mayfly.client.connection.local import LocalConnection

__all__ = [
    "Administration",
    "ClientClaims",
    "Connection",
    "LocalConnection",
    "OnDone",
    "Schedule",
    "Settlement",
    "UnderWay",
    "connect",
]


def __getattr__(name: str) -> object:
    if name == "LocalConnection":
        from mayfly.client.connection.local import LocalConnection

        return LocalConnection
    raise AttributeError(f"module 'mayfly.client.connection' has no attribute {name!r}")
