"""The neighbours of a queue manager: its parent, its children, and the proxies that each has."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from mayfly.engine.attributes import ChildDefinition
from mayfly.engine.attributes.attribute import CHILD, QLOCAL
from mayfly.engine.core import Core
from mayfly.engine.objects.administration import define, erase, save
from mayfly.engine.pubsub.proxies import is_proxy, neighbour_of, proxy_definition
from mayfly.engine.pubsub.retained import deliver_retained
from mayfly.engine.pubsub.subscription_administration import (
    create_subscription,
    remove_subscription,
)
from mayfly.engine.pubsub.subscriptions import Subscription
from mayfly.mqi.errors import MQError

_LOG = logging.getLogger("mayfly.hierarchy")
_QUEUE = {"MAXDEPTH": 999_999_999, "DEFPSIST": 1}


class Neighbours:
    """The queue managers beside this one in the tree; all of it is on disk."""

    def __init__(self, core: Core) -> None:
        """Look at what the store knows."""
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
        """Return parent and children."""
        return [name for name in (self.parent, *self.children) if name]

    def make_queues(self, names: Iterable[str]) -> None:
        """Define the queues that neighbours are heard by where they are missing."""
        for name in names:
            if self._core.registry.find(name) is None:
                define(self._core, QLOCAL, name, _QUEUE)

    def add_child(self, name: str) -> None:
        """Note a child, durably."""
        child = ChildDefinition(CHILD, name)
        save(self._core, child, 0)
        with self._core.engine_lock:
            self._core.registry.named[CHILD, name] = child

    def drop(self, name: str) -> None:
        """Forget a neighbour with its proxies."""
        for topic in self.proxied_for(name):
            self.give(name, topic, is_wanted=False)
        child = self._core.registry.named.get((CHILD, name))
        if child is not None:
            erase(self._core, child)
            with self._core.engine_lock:
                del self._core.registry.named[CHILD, name]

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

        A new one brings what is retained for its topic, on its way to who subscribes there now.
        """
        definition = proxy_definition(neighbour, topic)
        found = self._core.registry.subscriptions.find(definition.name)
        if found is not None and not is_wanted:
            remove_subscription(self._core, found)
        elif found is None and is_wanted:
            made = create_subscription(
                self._core, definition, is_durable=True, takes_retained=False
            )
            self._send_retained(made)

    def _send_retained(self, proxy: Subscription) -> None:
        try:
            deliver_retained(self._core, proxy)
        except MQError as error:
            # Better a proxy without them than no proxy.
            _LOG.warning("retained publications for %r do not leave: %s", proxy, error)

    def strangers(self) -> set[str]:
        """Return whose proxies are here although they are no neighbours."""
        known = self.all()
        with self._core.engine_lock:
            return {
                neighbour_of(subscription)
                for subscription in self._core.registry.subscriptions.all()
                if is_proxy(subscription) and neighbour_of(subscription) not in known
            }
