"""The client in Python: a connection by the name or URL of a queue manager, wherever it runs.

``mayfly.connect`` makes a :class:`Client` (docs/CLIENTS.md), which uses
``mayfly.client.connection``. Facades and servers use that package directly.
"""

from mayfly.client.client import Client, ClientSubscription, connect

__all__ = ["Client", "ClientSubscription", "connect"]
