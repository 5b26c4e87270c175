"""The source of a consumer's messages: a queue, or a subscription to a topic with its queue."""

from __future__ import annotations

from mayfly.client.connection import Connection as QueueConnection
from mayfly.client.connection.topics import is_temporary_topic
from mayfly.jms.destinations import Destination, Queue, Topic
from mayfly.jms.errors import IllegalStateException, InvalidDestinationException, refuse
from mayfly.jms.roles import OwningSession
from mayfly.jms.sending import queue_to_use
from mayfly.jms.subscriptions import Wanted, full_name
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import mq_error
from mayfly.verbs import requests as ask
from mayfly.verbs.requests import Subscribed

_INPUT = c.MQOO_INPUT_AS_Q_DEF | c.MQOO_INQUIRE


class QueueFeed:
    """A queue, of which a selector takes its part."""

    no_local = False

    def __init__(
        self, session: OwningSession, destination: Destination, selector: str | None
    ) -> None:
        """Check the destination, which must be a queue here; raises InvalidDestinationException."""
        self.message_selector = selector_text(selector)
        self.destination: Queue = queue_to_use(destination)
        self._connection = session.connection

    def open(self, mq: QueueConnection) -> int:
        """Open the queue, and return its handle.

        Raises InvalidDestinationException for a temporary queue of another connection, and the
        reasons of MQOPEN.
        """
        queue = self.destination
        opened = mq.call(
            ask.Open(
                queue.queue_name,
                _INPUT,
                manager=queue.queue_manager,
                selector=self.message_selector,
            )
        )
        is_temporary = opened.definition_type == c.MQQDT_TEMPORARY_DYNAMIC
        if is_temporary and not self._connection.has_temporary_queue(opened.queue):
            mq.call(ask.CloseObject(opened.handle))
            raise InvalidDestinationException(
                f"{opened.queue} is the temporary queue of another connection",
                rc.MQRC_OPTION_NOT_VALID_FOR_TYPE,
            )
        return opened.handle

    def open_to_look(self, mq: QueueConnection) -> int:
        """Open the queue for a look at the messages to come, and return the handle."""
        queue = self.destination
        return mq.call(
            ask.Open(
                queue.queue_name,
                c.MQOO_BROWSE,
                manager=queue.queue_manager,
                selector=self.message_selector,
            )
        ).handle

    def close(self, mq: QueueConnection) -> None:
        """A queue is left as it is."""


class TopicFeed:
    """A subscription: it chooses by the selector when something is published."""

    def __init__(self, session: OwningSession, wanted: Wanted) -> None:
        """Check what is wanted; nothing is subscribed to yet.

        Raises InvalidDestinationException for no topic, or a temporary one of another connection or
        for a durable subscription, IllegalStateException for an unshared durable one without a
        client id, InvalidSelectorException, MQRC_SUB_NAME_ERROR.
        """
        connection = session.connection
        self.destination = _topic_to_use(session, wanted)
        self.message_selector = selector_text(wanted.selector)
        self.no_local = wanted.no_local
        if wanted.is_durable and not wanted.is_shared and connection.client_id is None:
            raise IllegalStateException(f"{wanted.name!r}: durable, but there is no client id")
        self._name = ""
        if wanted.is_durable or wanted.is_shared:
            self._name = full_name(session, wanted.name, is_durable=wanted.is_durable)
        self._wanted = wanted._replace(selector=self.message_selector)
        self._subscription: Subscribed | None = None

    def open(self, mq: QueueConnection) -> int:
        """Subscribe, or open the queue of the subscription again; returns the handle.

        Raises what ``Topics.join`` does, MQRC_NO_SUBSCRIPTION when it has ended meanwhile.
        """
        subscription, wanted = self._subscription, self._wanted
        if subscription is None:
            subscription = self._subscription = mq.call(
                ask.JoinSubscription(
                    wanted.topic.topic_name,
                    name=self._name,
                    is_durable=wanted.is_durable,
                    is_shared=wanted.is_shared,
                    no_local=wanted.no_local,
                    selector=wanted.selector or "",
                )
            )
            if subscription.handle:
                return subscription.handle
        elif not mq.call(ask.IsSubscriptionOpen(subscription.number)):
            raise mq_error(rc.MQRC_NO_SUBSCRIPTION, f"{self.destination}: it has ended")
        return mq.call(ask.Open(subscription.facts.queue, _INPUT)).handle

    def open_to_look(self, mq: QueueConnection) -> int:
        """Open the queue of the subscription for a look, and return the handle.

        Raises MQRC_NO_SUBSCRIPTION when it has ended meanwhile.
        """
        subscription = self._subscription
        if subscription is None:
            raise mq_error(rc.MQRC_NO_SUBSCRIPTION, f"{self.destination}: it has ended")
        return mq.call(ask.Open(subscription.facts.queue, c.MQOO_BROWSE)).handle

    def close(self, mq: QueueConnection) -> None:
        """Close the subscription; one that is not durable ends with the last who has it open."""
        subscription, self._subscription = self._subscription, None
        if subscription is not None and mq.is_open:
            mq.call(ask.CloseSubscription(subscription.number))


Feed = QueueFeed | TopicFeed


def selector_text(selector: str | None) -> str | None:
    """Return a message selector, None for a blank one; raises InvalidSelectorException if no text.

    Whether it is well formed turns out when its feed is opened.
    """
    if selector is not None and not isinstance(selector, str):
        refuse(rc.MQRC_SELECTION_STRING_ERROR, f"selector {selector!r} is no text")
    return selector if selector is not None and selector.strip() else None


def _topic_to_use(session: OwningSession, wanted: Wanted) -> Topic:
    topic = wanted.topic
    if not isinstance(topic, Topic):
        refuse(rc.MQRC_OBJECT_TYPE_ERROR, f"{topic!r} is no topic")
    if is_temporary_topic(topic.topic_name) and (
        wanted.is_durable or not session.connection.topics.has(topic.topic_name)
    ):
        why = "cannot be durable" if wanted.is_durable else "is another connection's, or deleted"
        refuse(rc.MQRC_OPTION_NOT_VALID_FOR_TYPE, f"{topic}: a temporary topic {why}")
    return topic
