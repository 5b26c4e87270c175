"""Programs in Python: one connection by the name or URL of a queue manager, wherever that is.

``mayfly.connect`` makes a :class:`Client` (docs/CLIENTS.md). It stands on
``mayfly.client.connection``, the interface with numbers, for facades and servers.
"""

from mayfly.client.client import Client
from mayfly.client.connecting import connect
from mayfly.client.subscriptions import ClientSubscription

__all__ = ["Client", "ClientSubscription", "connect"]
