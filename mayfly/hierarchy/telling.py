"""What is subscribed to on which side of a queue manager, and what its neighbours know of it.

It is counted once, and follows each change from then on: a subscription more costs the same beside
ten of them and beside ten thousand.
"""

from __future__ import annotations

from collections import Counter, defaultdict

from mayfly.engine.core import Core
from mayfly.engine.pubsub.proxies import is_proxy, neighbour_of
from mayfly.engine.pubsub.subscriptions import Subscription
from mayfly.hierarchy.announcements import WHOLE, Announcement

#: Behind whom the subscriptions of this queue manager are.
_HERE = ""


class _Told:
    """What a neighbour was told, by the announcement of this number, and what has changed since."""

    def __init__(self, number: int, topics: frozenset[str]) -> None:
        self.number = number
        self.topics = set(topics)
        self.unsaid: set[str] = set()


class Telling:
    """Makes the announcements of a queue manager; used by whoever works for its hierarchy."""

    def __init__(self, core: Core) -> None:
        """Know nothing until :meth:`begin`."""
        self._core = core
        #: How many subscriptions to a topic are behind whom.
        self._sides: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self._told: dict[str, _Told] = {}

    @property
    def has_news(self) -> bool:
        """Whether subscriptions have come or gone that nobody has looked at."""
        return bool(self._core.registry.subscriptions.changes)

    def begin(self) -> None:
        """Count what there is and follow it from now on; neighbours are told anew."""
        subscriptions = self._core.registry.subscriptions
        self._sides.clear()
        self._told.clear()
        with self._core.latch:
            subscriptions.changes = []
            there_are = subscriptions.all()
        for subscription in there_are:
            self._count(subscription, 1)

    def end(self) -> None:
        """Follow no longer."""
        with self._core.latch:
            self._core.registry.subscriptions.changes = None

    def follow(self) -> None:
        """Take in what has changed."""
        subscriptions = self._core.registry.subscriptions
        with self._core.latch:
            changes, subscriptions.changes = subscriptions.changes, []
        for subscription, step in changes or ():
            self._count(subscription, step)
            for told in self._told.values():
                told.unsaid.add(subscription.topic)

    def forget(self, neighbour: str) -> None:
        """Tell a neighbour everything next time."""
        self._told.pop(neighbour, None)

    def news_for(self, neighbour: str, parent: str, *, asks: bool) -> Announcement | None:
        """Return what a neighbour does not know yet, None when it knows everything.

        Whoever cannot send it calls :meth:`forget`.
        """
        told, sender = self._told.get(neighbour), self._core.name
        if told is None:
            topics = frozenset(t for t in self._sides if self._is_wanted(t, neighbour))
            whole = Announcement(sender, parent, self._number(), topics, asks=asks)
            self._told[neighbour] = _Told(whole.number, topics)
            return whole
        wanted = {topic for topic in told.unsaid if self._is_wanted(topic, neighbour)}
        new, ended = wanted - told.topics, (told.unsaid - wanted) & told.topics
        told.unsaid.clear()
        if not (new or ended):
            return None
        follows, told.number = told.number, self._number()
        told.topics |= new
        told.topics -= ended
        return Announcement(
            sender, parent, told.number, frozenset(new), frozenset(ended), follows, asks
        )

    def farewell(self, parent: str) -> Announcement:
        """Return what tells a neighbour that it is none any longer."""
        return Announcement(self._core.name, parent, self._number(), leaves=True)

    def _count(self, subscription: Subscription, step: int) -> None:
        side = neighbour_of(subscription) if is_proxy(subscription) else _HERE
        counts = self._sides[subscription.topic]
        counts[side] += step
        if not counts[side]:
            del counts[side]
        if not counts:
            del self._sides[subscription.topic]

    def _is_wanted(self, topic: str, neighbour: str) -> bool:
        """Tell whether somebody subscribes to it here or behind another neighbour."""
        sides = self._sides.get(topic, ())
        return len(sides) > (neighbour in sides)

    def _number(self) -> int:
        with self._core.latch:
            number = self._core.store.sequence.next()
        assert number != WHOLE
        return number
