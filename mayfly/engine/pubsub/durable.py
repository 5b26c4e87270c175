"""Durable subscriptions for JMS, with client ids and temporary topics."""

from __future__ import annotations

from mayfly.engine.authority.records import USER_CHARACTERS
from mayfly.engine.core import Core
from mayfly.engine.counting import counts
from mayfly.engine.delivery import new_message_id
from mayfly.engine.pubsub.publish import clear_retained
from mayfly.engine.pubsub.subscribing import OpenSubscription
from mayfly.engine.pubsub.topics import Subscription
from mayfly.engine.session import Session
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import mq_error


def open_durable(
    session: Session, name: str, topic: str, *, selector: str, shared: bool, no_local: bool
) -> OpenSubscription:
    """Open the durable subscription ``name`` for a session; create it when it does not exist.

    ``selector`` is the condition on publications, empty for none. Several sessions may have a
    ``shared`` one open at once. With ``no_local`` it takes no publications of the same connection.
    An existing subscription with another topic, selector or ``no_local`` is removed with its
    messages and created again, if the user has authority to remove it.

    Raises MQRC_SUBSCRIPTION_IN_USE when an unshared subscription, or one to be removed, is open.
    The same error is raised when one to be removed has unacknowledged messages. Raises
    MQRC_SUB_ALREADY_EXISTS when the existing one is shared and ``shared`` is False, or the reverse.
    Also raises the errors of Session.subscribe and Session.resume.
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
    """Remove a durable subscription by its name, with the messages on its managed queue.

    Raises MQRC_NO_SUBSCRIPTION when the name is unknown, and MQRC_SUBSCRIPTION_IN_USE while the
    subscription is open or has unacknowledged messages.
    """
    core = session.core
    _let_settle(core, name)
    with core.definitions_lock:
        _check_idle(core, core.registry.subscriptions.named(name))
        session.unsubscribe(name)


def reserve_client_id(session: Session, client_id: str) -> None:
    """Reserve a JMS client id for a session, and set it as the connection name of the session.

    The reservation lasts until the session ends. A repeated call for the same session is allowed.
    Raises MQRC_OBJECT_IN_USE while another open session has the client id.
    """
    core = session.core
    with core.engine_lock:
        holder = core.client_ids.get(client_id)
        if holder is not None and holder is not session and holder.is_open:
            raise mq_error(rc.MQRC_OBJECT_IN_USE, f"client id {client_id!r} is in use")
        core.client_ids[client_id] = session
    session.belong_to(client_id)


def make_temporary_topic(session: Session) -> str:
    """Return a new, unique topic string, ``TEMP/`` and a hexadecimal id.

    The user of the session may publish and subscribe to it until :func:`delete_temporary_topic`.
    """
    core = session.core
    topic = f"TEMP/{new_message_id(core).hex().upper()}"
    with core.engine_lock:
        core.registry.authority.temporary_topics[topic] = session.context.user_identifier[
            :USER_CHARACTERS
        ]
    return topic


def delete_temporary_topic(core: Core, topic: str) -> None:
    """Remove the user's right to a temporary topic, and its retained publication.

    No authority is checked. An unknown topic is no error.
    """
    with core.engine_lock:
        core.registry.authority.temporary_topics.pop(topic, None)
    clear_retained(core, topic)


def is_subscribed_to(core: Core, topic: str) -> bool:
    """Return True if a session has a subscription open with exactly this topic string.

    A subscription that matches by wildcards alone does not count.
    """
    with core.engine_lock:
        matching = core.registry.subscriptions.matching(topic)
        return any(found.topic == topic and found.holds for found in matching)


def _check_idle(core: Core, subscription: Subscription) -> None:
    """Raise MQRC_SUBSCRIPTION_IN_USE when a subscription is open or has unacknowledged messages."""
    if subscription.holds:
        raise mq_error(rc.MQRC_SUBSCRIPTION_IN_USE, f"{subscription!r} has a consumer")
    if _is_held(core, subscription):
        raise mq_error(
            rc.MQRC_SUBSCRIPTION_IN_USE, f"{subscription!r} has messages that are not acknowledged"
        )


def _let_settle(core: Core, name: str) -> None:
    """Wait until pending acknowledgements of the closed subscription ``name`` are on disk.

    Otherwise the next consumer could get messages that were already acknowledged. Returns at once
    when the subscription does not exist, is open, or has no locked messages.
    """
    found = core.registry.subscriptions.find(name)
    if found is not None and not found.holds and _is_held(core, found):
        core.background.settle()


def _is_held(core: Core, subscription: Subscription) -> bool:
    """Return True if the managed queue of a subscription has locked messages.

    Returns False for a subscription without a managed queue, or when that queue is deleted.
    """
    if not subscription.is_managed:
        return False
    with core.engine_lock:
        queue = core.registry.by_name(subscription.destination)
        return queue is not None and bool(counts(core, queue).locked)
