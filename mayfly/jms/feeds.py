"""What a consumer receives from: a queue, or a subscription to a topic with its queue."""

from __future__ import annotations

from mayfly.engine import Handle
from mayfly.engine import Session as EngineSession
from mayfly.engine.face.jms import OpenSubscription
from mayfly.jms.destinations import Destination, Queue, Topic
from mayfly.jms.errors import IllegalStateException, InvalidDestinationException, refuse
from mayfly.jms.roles import OwningSession
from mayfly.jms.sending import queue_name_in, queue_to_use
from mayfly.jms.subscriptions import Wanted, full_name, open_subscription
from mayfly.jms.temporary_topics import is_temporary
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import mq_error

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
        self._name = queue_name_in(session, self.destination)
        self._connection = session.connection

    def open(self, mq: EngineSession) -> Handle:
        """Open the queue.

        Raises InvalidDestinationException for a temporary queue of another connection, and the
        reasons of MQOPEN.
        """
        handle = mq.open(self._name, _INPUT, selector=self.message_selector)
        definition = handle.queue.definition
        if definition.definition_type == c.MQQDT_TEMPORARY_DYNAMIC and (
            not self._connection.has_temporary_queue(definition.name)
        ):
            handle.close()
            raise InvalidDestinationException(
                f"{definition.name} is the temporary queue of another connection",
                rc.MQRC_OPTION_NOT_VALID_FOR_TYPE,
            )
        return handle

    def close(self) -> None:
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
            self._name = full_name(connection, wanted.name, is_durable=wanted.is_durable)
        self._wanted = wanted._replace(selector=self.message_selector)
        self._subscription: OpenSubscription | None = None

    def open(self, mq: EngineSession) -> Handle:
        """Subscribe, or open the queue of the subscription again.

        Raises what ``open_subscription`` does, MQRC_NO_SUBSCRIPTION when it has ended meanwhile.
        """
        subscription = self._subscription
        if subscription is None:
            subscription = open_subscription(mq, self._name, self._wanted)
            self._subscription = subscription
            if subscription.handle is not None:
                return subscription.handle
        elif not subscription.is_open:
            raise mq_error(rc.MQRC_NO_SUBSCRIPTION, f"{self.destination}: it has ended")
        return mq.open(subscription.queue, _INPUT)

    def close(self) -> None:
        """Close the subscription; one that is not durable ends with the last who has it open."""
        if self._subscription is not None:
            self._subscription.close()


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
    if is_temporary(topic.topic_name) and (
        wanted.is_durable or not session.connection.topics.has(topic.topic_name)
    ):
        why = "cannot be durable" if wanted.is_durable else "is another connection's, or deleted"
        refuse(rc.MQRC_OPTION_NOT_VALID_FOR_TYPE, f"{topic}: a temporary topic {why}")
    return topic
