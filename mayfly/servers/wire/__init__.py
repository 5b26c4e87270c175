"""The server of remote connections: TCP, TLS and UNIX sockets (docs/WIRE.md)."""

from mayfly.servers.wire.limits import Limits
from mayfly.servers.wire.server import WireServer
from mayfly.servers.wire.status import ConnectionStatus

__all__ = ["ConnectionStatus", "Limits", "WireServer"]
