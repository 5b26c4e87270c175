"""Subscriptions as JMS knows them: their names, when one is resumed and when it is made anew.

A durable one is ``JMS:queue manager:client id:name`` for the queue manager, a shared one that is
not durable begins with JMS.ND: the two kinds have nothing to do with each other.
"""

from __future__ import annotations

from typing import NamedTuple

from mayfly.client.connection.topics import quoted_client_id
from mayfly.jms.destinations import Topic
from mayfly.jms.errors import refuse
from mayfly.jms.roles import OwningSession
from mayfly.mqi import reasons as rc


class Wanted(NamedTuple):
    """The subscription that a consumer asks for; without a name it is the consumer's alone."""

    topic: Topic
    name: str = ""
    selector: str | None = None
    is_durable: bool = False
    is_shared: bool = False
    no_local: bool = False


def full_name(session: OwningSession, name: object, *, is_durable: bool) -> str:
    """Return the name of a subscription for the queue manager; raises MQRC_SUB_NAME_ERROR.

    With a client id of the connection the name is the client's own; else all clients share it.
    """
    if not isinstance(name, str) or not name.strip():
        refuse(rc.MQRC_SUB_NAME_ERROR, f"{name!r} cannot name a subscription")
    kind = "JMS" if is_durable else "JMS.ND"
    client = quoted_client_id(session.connection.client_id or "")
    return f"{kind}:{session.mq.name}:{client}:{name}"
