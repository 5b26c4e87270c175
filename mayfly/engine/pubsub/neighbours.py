"""Neighbours in a hierarchy: their proxies, the topics told to them, publications from them."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import NamedTuple

from mayfly.engine.attributes import CHILD, QLOCAL, ChildDefinition
from mayfly.engine.core import Core
from mayfly.engine.objects.administration import define
from mayfly.engine.objects.named import forget_named, keep_named
from mayfly.engine.pubsub.administration import create_subscription, remove_subscription
from mayfly.engine.pubsub.proxies import (
    is_proxy,
    neighbour_of,
    out_of_envelope,
    proxy_definition,
    publisher_name,
)
from mayfly.engine.pubsub.retained import deliver_retained
from mayfly.engine.pubsub.subscriptions import Subscription
from mayfly.engine.put import PutRequest
from mayfly.engine.session import Session
from mayfly.mqi import reasons as rc
from mayfly.mqi.constants import MQPMO_SET_ALL_CONTEXT
from mayfly.mqi.errors import MQError, mq_error
from mayfly.verbs.checks import stored_id
from mayfly.verbs.messages import Message

_LOG = logging.getLogger("mayfly.hierarchy")
_QUEUE = {"MAXDEPTH": 999_999_999, "DEFPSIST": 1}


class Neighbours:
    """The queue managers beside this one in the tree; all of it is on disk."""

    def __init__(self, core: Core) -> None:
        self._core = core

    @property
    def parent(self) -> str:
        """PARENT of the queue manager, empty at the top of the tree."""
        return self._core.registry.queue_manager.parent

    @property
    def children(self) -> list[str]:
        """The queue managers that have said that this one is their parent."""
        with self._core.engine_lock:
            return sorted(name for kind, name in self._core.registry.named if kind == CHILD)

    def all(self) -> list[str]:
        return [name for name in (self.parent, *self.children) if name]

    def make_queues(self, names: Iterable[str]) -> None:
        """Define the queues that neighbours are heard by where they are missing."""
        for name in names:
            if self._core.registry.find(name) is None:
                define(self._core, QLOCAL, name, _QUEUE)

    def add_child(self, name: str) -> None:
        """Note a child; durable on return."""
        keep_named(self._core, ChildDefinition(CHILD, name))

    def drop(self, name: str) -> None:
        """Forget a neighbour with its proxies."""
        for topic in self.proxied_for(name):
            self.give(name, topic, is_wanted=False)
        child = self._core.registry.named.get((CHILD, name))
        if child is not None:
            forget_named(self._core, child)

    def proxied_for(self, neighbour: str) -> set[str]:
        """Return the topics that a neighbour has proxies for."""
        with self._core.engine_lock:
            return {
                subscription.topic
                for subscription in self._core.registry.subscriptions.all()
                if is_proxy(subscription) and neighbour_of(subscription) == neighbour
            }

    def give(self, neighbour: str, topic: str, *, is_wanted: bool) -> None:
        """Let a neighbour have a proxy for a topic, or none; raises why that fails.

        A new one sends the retained publications of its topic to the subscribers there.
        """
        definition = proxy_definition(neighbour, topic)
        found = self._core.registry.subscriptions.find(definition.name)
        if found is not None and not is_wanted:
            remove_subscription(self._core, found)
        elif found is None and is_wanted:
            made = create_subscription(
                self._core, definition, is_durable=True, takes_retained=False
            )
            try:
                deliver_retained(self._core, made)
            except MQError as error:
                # Better a proxy without them than no proxy.
                _LOG.warning("retained publications for %r do not leave: %s", made, error)

    def strangers(self) -> set[str]:
        """Return whose proxies are here although they are no neighbours."""
        known = self.all()
        with self._core.engine_lock:
            return {
                neighbour_of(subscription)
                for subscription in self._core.registry.subscriptions.all()
                if is_proxy(subscription) and neighbour_of(subscription) not in known
            }


class TopicChange(NamedTuple):
    """One subscription to a topic string has come (+1) or gone (-1).

    ``neighbour`` is the queue manager behind which the subscriber is, empty for this one.
    """

    topic: str
    neighbour: str
    step: int


class SubscribedTopics:
    """Follows the subscriptions of a queue manager; only one of them may follow at a time."""

    def __init__(self, core: Core) -> None:
        self._core = core

    @property
    def has_changes(self) -> bool:
        """Whether subscriptions have come or gone since :meth:`begin` or :meth:`changes`."""
        return bool(self._core.registry.subscriptions.changes)

    def begin(self) -> list[TopicChange]:
        """Return all subscriptions that there are, and follow what changes from now on."""
        subscriptions = self._core.registry.subscriptions
        with self._core.engine_lock:
            subscriptions.changes = []
            there_are = subscriptions.all()
        return _topics((subscription, 1) for subscription in there_are)

    def changes(self) -> list[TopicChange]:
        """Return what has changed since the last call, in order."""
        subscriptions = self._core.registry.subscriptions
        with self._core.engine_lock:
            changes, subscriptions.changes = subscriptions.changes, []
        return _topics(changes or ())

    def end(self) -> None:
        with self._core.engine_lock:
            self._core.registry.subscriptions.changes = None


def _topics(changes: Iterable[tuple[Subscription, int]]) -> list[TopicChange]:
    return [
        TopicChange(one.topic, neighbour_of(one) if is_proxy(one) else "", step)
        for one, step in changes
    ]


def publish_from_neighbour(session: Session, message: Message) -> None:
    """Publish a message of ``PUBLICATIONS`` in the unit of work that has got it.

    Raises as ``out_of_envelope`` and ``publish.publish``; MQRC_LOOPING_PUBLICATION when it has
    been here before.
    """
    arrived = out_of_envelope(message.descriptor, message.body)
    journey, here = arrived.journey, session.core.name
    if here in journey.visited:
        raise mq_error(
            rc.MQRC_LOOPING_PUBLICATION,
            f"{here} has published it already; it came by {', '.join(journey.visited)}",
        )
    session.belong_to(publisher_name(journey.visited[-1]))
    request = PutRequest(
        arrived.descriptor._replace(put_date=message.put_date, put_time=message.put_time),
        message.msg_id,
        stored_id(message.correl_id),
        message.remaining_ms,
        context_option=MQPMO_SET_ALL_CONTEXT,
    )
    session.publish_as(
        arrived.topic,
        arrived.body,
        request,
        syncpoint=True,
        retain=journey.is_retained,
        journey=journey,
    )
