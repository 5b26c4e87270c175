"""The topics that are subscribed to, for whoever tells neighbours: all of them, then changes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from mayfly.engine.core import Core
from mayfly.engine.pubsub.proxies import is_proxy, neighbour_of
from mayfly.engine.pubsub.subscriptions import Subscription


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
        """Follow nothing until :meth:`begin`."""
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
        """Follow no longer."""
        with self._core.engine_lock:
            self._core.registry.subscriptions.changes = None


def _topics(changes: Iterable[tuple[Subscription, int]]) -> list[TopicChange]:
    return [
        TopicChange(one.topic, neighbour_of(one) if is_proxy(one) else "", step)
        for one, step in changes
    ]
