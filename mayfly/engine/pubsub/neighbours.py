"""Neighbours in a hierarchy of queue managers: parent, children and proxy subscriptions."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import NamedTuple

from mayfly.engine.attributes import CHILD, QLOCAL, ChildDefinition
from mayfly.engine.core import Core
from mayfly.engine.objects.administration import define, forget_named, keep_named
from mayfly.engine.pubsub.administration import create_subscription, remove_subscription
from mayfly.engine.pubsub.proxies import (
    is_proxy,
    neighbour_of,
    out_of_envelope,
    proxy_definition,
    publisher_name,
)
from mayfly.engine.pubsub.publish import deliver_retained
from mayfly.engine.pubsub.topics import Subscription
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
    """The parent and children of one queue manager in the hierarchy; all changes are on disk."""

    def __init__(self, core: Core) -> None:
        """Give access to the neighbours of the queue manager whose engine is ``core``."""
        self._core = core

    @property
    def parent(self) -> str:
        """The PARENT attribute of the queue manager, empty at the top of the hierarchy."""
        return self._core.registry.queue_manager.parent

    @property
    def children(self) -> list[str]:
        """The sorted names of the child queue managers, added by :meth:`add_child`."""
        with self._core.engine_lock:
            return sorted(name for kind, name in self._core.registry.named if kind == CHILD)

    def all(self) -> list[str]:
        """Return the names of the parent, if any, and the children."""
        return [name for name in (self.parent, *self.children) if name]

    def make_queues(self, names: Iterable[str]) -> None:
        """Define local queues with these names, for neighbours to send to; existing ones stay."""
        for name in names:
            if self._core.registry.find(name) is None:
                define(self._core, QLOCAL, name, _QUEUE)

    def add_child(self, name: str) -> None:
        """Add a child queue manager, or replace it; it is on disk on return."""
        keep_named(self._core, ChildDefinition(CHILD, name))

    def drop(self, name: str) -> None:
        """Remove all proxy subscriptions of a neighbour, and the child of that name.

        A name that is no child loses its proxies only. PARENT is not changed.
        """
        for topic in self.proxy_topics(name):
            self.set_proxy(name, topic, is_wanted=False)
        child = self._core.registry.named.get((CHILD, name))
        if child is not None:
            forget_named(self._core, child)

    def proxy_topics(self, neighbour: str) -> set[str]:
        """Return the topic strings for which a neighbour has proxy subscriptions here.

        The set is empty for a neighbour without proxies.
        """
        with self._core.engine_lock:
            return {
                subscription.topic
                for subscription in self._core.registry.subscriptions.all()
                if is_proxy(subscription) and neighbour_of(subscription) == neighbour
            }

    def set_proxy(self, neighbour: str, topic: str, *, is_wanted: bool) -> None:
        """Create a neighbour's proxy subscription for a topic; remove it unless ``is_wanted``.

        Does nothing when it exists already, or is already gone. A new proxy sends the retained
        publications that match its topic string to the neighbour; a failure of that is only logged.
        Raises MQRC_SUB_INHIBITED or another error of ``create_subscription``, and
        MQRC_STORAGE_MEDIUM_FULL.
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

    def unknown_neighbours(self) -> set[str]:
        """Return the names of queue managers that have proxies here but are not neighbours."""
        known = self.all()
        with self._core.engine_lock:
            return {
                neighbour_of(subscription)
                for subscription in self._core.registry.subscriptions.all()
                if is_proxy(subscription) and neighbour_of(subscription) not in known
            }


class TopicChange(NamedTuple):
    """One subscription to the topic string ``topic`` was added (``step`` +1) or removed (-1).

    For a proxy subscription ``neighbour`` is the queue manager it was made for. It is empty for a
    subscription of a program or administrator.
    """

    topic: str
    neighbour: str
    step: int


class SubscribedTopics:
    """Records the subscriptions that a queue manager adds and removes, for its neighbours.

    Only one instance may record at a time, as the record is kept in the queue manager.
    """

    def __init__(self, core: Core) -> None:
        """Prepare to record changes at ``core``; :meth:`begin` starts the recording."""
        self._core = core

    @property
    def has_changes(self) -> bool:
        """Whether subscriptions were added or removed since :meth:`begin` or :meth:`changes`."""
        return bool(self._core.registry.subscriptions.changes)

    def begin(self) -> list[TopicChange]:
        """Return all present subscriptions as additions, and record changes from now on.

        Changes recorded before are lost.
        """
        subscriptions = self._core.registry.subscriptions
        with self._core.engine_lock:
            subscriptions.changes = []
            there_are = subscriptions.all()
        return _topic_changes((subscription, 1) for subscription in there_are)

    def changes(self) -> list[TopicChange]:
        """Return the changes since the last call, in the order in which they happened.

        The list is empty before :meth:`begin` and after :meth:`end`.
        """
        subscriptions = self._core.registry.subscriptions
        with self._core.engine_lock:
            changes = subscriptions.changes
            if changes is None:
                return []
            subscriptions.changes = []
        return _topic_changes(changes)

    def end(self) -> None:
        """Stop recording changes, and discard those not yet returned."""
        with self._core.engine_lock:
            self._core.registry.subscriptions.changes = None


def _topic_changes(changes: Iterable[tuple[Subscription, int]]) -> list[TopicChange]:
    """Convert pairs (subscription, +1 or -1) into :class:`TopicChange` values, in order."""
    return [
        TopicChange(one.topic, neighbour_of(one) if is_proxy(one) else "", step)
        for one, step in changes
    ]


def publish_from_neighbour(session: Session, message: Message) -> None:
    """Publish a message that a neighbour sent to SYSTEM.INTER.QMGR.PUBS.

    The copies belong to the unit of work in which the message was got. Raises
    MQRC_LOOPING_PUBLICATION when this queue manager has published it before, and the errors of
    ``out_of_envelope`` and ``publish.publish``.
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
