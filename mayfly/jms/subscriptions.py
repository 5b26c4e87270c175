"""Subscriptions as JMS knows them: their names, when one is resumed and when it is made anew.

A durable one is ``JMS:queue manager:client id:name`` for the queue manager, a shared one that is
not durable begins with JMS.ND: the two kinds have nothing to do with each other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from mayfly.engine.pubsub.subscribing import OpenSubscription
from mayfly.engine.pubsub.subscriptions import Subscription
from mayfly.engine.session import Session as EngineSession
from mayfly.jms.destinations import Topic
from mayfly.jms.errors import refuse
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import mq_error

if TYPE_CHECKING:
    from mayfly.engine.manager import Manager
    from mayfly.jms.connections import Connection

#: A client id may hold what stands between the parts; the name is the last of them.
_QUOTED = str.maketrans({"%": "%25", ":": "%3A"})


class Wanted(NamedTuple):
    """What a consumer asks for; without a name it has a subscription of its own."""

    topic: Topic
    name: str = ""
    selector: str | None = None
    is_durable: bool = False
    is_shared: bool = False
    no_local: bool = False


def full_name(connection: Connection, name: object, *, is_durable: bool) -> str:
    """Return the name of a subscription for the queue manager; raises MQRC_SUB_NAME_ERROR.

    It is the client's alone where the connection has a client id, else everybody's.
    """
    if not isinstance(name, str) or not name.strip():
        refuse(rc.MQRC_SUB_NAME_ERROR, f"{name!r} cannot name a subscription")
    kind = "JMS" if is_durable else "JMS.ND"
    client = (connection.client_id or "").translate(_QUOTED)
    return f"{kind}:{connection.manager.name}:{client}:{name}"


def open_subscription(
    manager: Manager, mq: EngineSession, name: str, wanted: Wanted
) -> OpenSubscription:
    """Make the subscription that is wanted, or open it again; ``name`` is the full one.

    A durable one that asks for something else gives way, with what has come for it. Raises
    MQRC_SUBSCRIPTION_IN_USE when that, or an unshared one, is open or has messages that are not
    acknowledged, MQRC_SUB_ALREADY_EXISTS when one is shared and the other is not, or the open one
    asks for something else; and the reasons of MQSUB.
    """
    if not wanted.is_durable:
        return _subscribe(mq, name, wanted)
    with manager.administration:
        existing = manager.registry.subscriptions.find(name)
        if existing is None:
            return _subscribe(mq, name, wanted)
        if existing.is_shared != wanted.is_shared:
            said = f"{existing!r} is {'' if existing.is_shared else 'not '}shared"
            raise mq_error(rc.MQRC_SUB_ALREADY_EXISTS, said)
        if not _is_same(existing, wanted):
            _check_idle(manager, existing)
            return _subscribe(mq, name, wanted, replaces=True)
        return _subscribe(mq, name, wanted) if wanted.is_shared else mq.resume(name)


def unsubscribe(manager: Manager, mq: EngineSession, name: str) -> None:
    """Remove a durable subscription by its full name, with what has come for it.

    Raises MQRC_NO_SUBSCRIPTION, MQRC_SUBSCRIPTION_IN_USE while it is open or has messages that are
    not acknowledged.
    """
    with manager.administration:
        _check_idle(manager, manager.registry.subscriptions.named(name))
        mq.unsubscribe(name)


def _subscribe(
    mq: EngineSession, name: str, wanted: Wanted, *, replaces: bool = False
) -> OpenSubscription:
    return mq.subscribe(
        wanted.topic.topic_name,
        name=name,
        durable=wanted.is_durable,
        selector=wanted.selector or "",
        shared=wanted.is_shared,
        no_local=wanted.no_local,
        replace=replaces,
    )


def _is_same(existing: Subscription, wanted: Wanted) -> bool:
    found = existing.topic, existing.definition.selector, existing.ignores_own
    return found == (wanted.topic.topic_name, wanted.selector or "", wanted.no_local)


def _check_idle(manager: Manager, subscription: Subscription) -> None:
    if subscription.holds:
        raise mq_error(rc.MQRC_SUBSCRIPTION_IN_USE, f"{subscription!r} has a consumer")
    if subscription.is_managed and manager.counts(subscription.destination).locked:
        said = f"{subscription!r} has messages that are not acknowledged"
        raise mq_error(rc.MQRC_SUBSCRIPTION_IN_USE, said)
