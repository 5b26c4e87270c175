"""Connections: what programs, facades and servers do with a queue manager, wherever it is.

``interface`` says what there is, ``connect`` connects by name within this process
(docs/CONNECTION.md).
"""

from mayfly.connection.by_name import connect
from mayfly.connection.interface import (
    Asynchronous,
    Connection,
    Objects,
    OnDone,
    Opened,
    UnderWay,
)
from mayfly.connection.local import LocalConnection
from mayfly.connection.onward import Held, Onward
from mayfly.connection.operating import Administration, ClaimVerbs, ScheduleVerbs
from mayfly.connection.topics import Subscribed, Topics
from mayfly.connection.values import (
    Delivery,
    GetResult,
    Message,
    PutResult,
    Settlement,
    Status,
    SubscriptionFacts,
    stored_id,
    text_length,
    token_of,
)

__all__ = [
    "Administration",
    "Asynchronous",
    "ClaimVerbs",
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
    "ScheduleVerbs",
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
