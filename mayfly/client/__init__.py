"""Programs in Python: one connection by the name or URL of a queue manager, wherever that is.

``mayfly.connect`` makes a :class:`Client` (docs/CLIENTS.md). It stands on
``mayfly.client.connection``, the interface with numbers, for facades and servers.
"""

from mayfly.client.client import Client, ClientSubscription, connect

__all__ = ["Client", "ClientSubscription", "connect"]
