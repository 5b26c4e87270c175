"""Subscriptions for JMS: durable ones by name, client ids, temporary topics."""

from __future__ import annotations

from mayfly.engine.authority.records import USER_CHARACTERS
from mayfly.engine.core import Core
from mayfly.engine.counting import counts
from mayfly.engine.delivery import new_message_id
from mayfly.engine.pubsub.retained import clear_retained
from mayfly.engine.pubsub.subscribing import OpenSubscription
from mayfly.engine.pubsub.subscriptions import Subscription
from mayfly.engine.session import Session
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import mq_error


def open_durable(
    session: Session, name: str, topic: str, *, selector: str, shared: bool, no_local: bool
) -> OpenSubscription:
    """Open the durable subscription of a name, which is made when there is none.

    A subscription of the name with another topic, selector or ``no_local`` is removed with its
    messages, and made anew; its user must be one who may remove it. Raises
    MQRC_SUBSCRIPTION_IN_USE when this one, or an unshared one, is open or has messages that are not
    acknowledged. Raises MQRC_SUB_ALREADY_EXISTS when one is shared and the other is not, or the
    open one has another topic, selector or ``no_local``; and the reasons of Session.subscribe and
    Session.resume.
    """
    core, replaces = session.core, False
    _let_settle(core, name)
    with core.definitions_lock:
        existing = core.registry.subscriptions.find(name)
        if existing is not None:
            if existing.is_shared != shared:
                raise mq_error(
                    rc.MQRC_SUB_ALREADY_EXISTS,
                    f"{existing!r} is {'' if existing.is_shared else 'not '}shared",
                )
            found = existing.topic, existing.definition.selector, existing.ignores_own
            replaces = found != (topic, selector, no_local)
            if replaces:
                _check_idle(core, existing)
            elif not shared:
                return session.resume(name)
        return session.subscribe(
            topic,
            name=name,
            durable=True,
            selector=selector,
            shared=shared,
            no_local=no_local,
            replace=replaces,
        )


def remove_idle(session: Session, name: str) -> None:
    """Remove a durable subscription, with what has come for it.

    Raises MQRC_NO_SUBSCRIPTION, MQRC_SUBSCRIPTION_IN_USE while it is open or has messages that are
    not acknowledged.
    """
    core = session.core
    _let_settle(core, name)
    with core.definitions_lock:
        _check_idle(core, core.registry.subscriptions.named(name))
        session.unsubscribe(name)


def claim_client_id(session: Session, client_id: str) -> None:
    """Let a session be the one under a client id as long as it is open, and belong to it.

    Raises MQRC_OBJECT_IN_USE while another one is.
    """
    core = session.core
    with core.engine_lock:
        holder = core.client_ids.get(client_id)
        if holder is not None and holder is not session and holder.is_open:
            raise mq_error(rc.MQRC_OBJECT_IN_USE, f"client id {client_id!r} is in use")
        core.client_ids[client_id] = session
    session.belong_to(client_id)


def make_temporary_topic(session: Session) -> str:
    """Return a topic string that nobody else makes, which its user may publish and subscribe to.

    It is the user's until :func:`delete_temporary_topic`.
    """
    core = session.core
    topic = f"TEMP/{new_message_id(core).hex().upper()}"
    with core.engine_lock:
        core.registry.authority.temporary_topics[topic] = session.context.user_identifier[
            :USER_CHARACTERS
        ]
    return topic


def delete_temporary_topic(core: Core, topic: str) -> None:
    """Delete a temporary topic with its retained publication; its maker needs no authority."""
    with core.engine_lock:
        core.registry.authority.temporary_topics.pop(topic, None)
    clear_retained(core, topic)


def is_subscribed_to(core: Core, topic: str) -> bool:
    """Return True if a subscription to exactly this topic string is open."""
    with core.engine_lock:
        matching = core.registry.subscriptions.matching(topic)
        return any(found.topic == topic and found.holds for found in matching)


def _check_idle(core: Core, subscription: Subscription) -> None:
    if subscription.holds:
        raise mq_error(rc.MQRC_SUBSCRIPTION_IN_USE, f"{subscription!r} has a consumer")
    if _is_held(core, subscription):
        raise mq_error(
            rc.MQRC_SUBSCRIPTION_IN_USE, f"{subscription!r} has messages that are not acknowledged"
        )


def _let_settle(core: Core, name: str) -> None:
    """Wait for acknowledgements that are on their way to the disk, where nobody has it open.

    Their consumer has been closed behind them, and its successor is not to find them.
    """
    found = core.registry.subscriptions.find(name)
    if found is not None and not found.holds and _is_held(core, found):
        core.background.settle()


def _is_held(core: Core, subscription: Subscription) -> bool:
    if not subscription.is_managed:
        return False
    with core.engine_lock:
        queue = core.registry.by_name(subscription.destination)
        return queue is not None and bool(counts(core, queue).locked)
