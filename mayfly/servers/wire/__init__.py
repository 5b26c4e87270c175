"""The server of Mayfly's network protocol ("wire"): TCP, TLS and UNIX sockets (docs/WIRE.md)."""

from mayfly.servers.wire.link import Limits
from mayfly.servers.wire.server import WireServer

__all__ = ["Limits", "WireServer"]
