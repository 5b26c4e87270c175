"""Connections: programs, facades and servers use a queue manager by these, wherever it is.

``interface`` has the verbs, ``connect`` connects by name, in this process or over a network
(docs/CONNECTION.md).
"""

from mayfly.connection.by_name import connect
from mayfly.connection.interface import (
    Asynchronous,
    Connection,
    Objects,
    OnDone,
    UnderWay,
)
from mayfly.connection.local import LocalConnection
from mayfly.connection.onward import Held, Onward
from mayfly.connection.operating import Administration, Claims, Schedule
from mayfly.connection.topics import Topics
from mayfly.connection.values import (
    Delivery,
    GetResult,
    Message,
    Opened,
    PutResult,
    Settlement,
    Status,
    Subscribed,
    SubscriptionFacts,
    stored_id,
    text_length,
    token_of,
)

__all__ = [
    "Administration",
    "Asynchronous",
    "Claims",
    "Connection",
    "Delivery",
    "GetResult",
    "Held",
    "LocalConnection",
    "Message",
    "Objects",
    "OnDone",
    "Onward",
    "Opened",
    "PutResult",
    "Schedule",
    "Settlement",
    "Status",
    "Subscribed",
    "SubscriptionFacts",
    "Topics",
    "UnderWay",
    "connect",
    "stored_id",
    "text_length",
    "token_of",
]
