"""Subscriptions on each side of a queue manager, and the part that its neighbours know.

They are counted once, and each later change is followed: one subscription more costs the same
beside ten of them and beside ten thousand.
"""

from __future__ import annotations

from collections import Counter, defaultdict

from mayfly.channel.hierarchy.announcements import WHOLE, Announcement
from mayfly.engine import Engine
from mayfly.engine.face.transit import SubscribedTopics, TopicChange, next_number


class _Told:
    """The last announcement to a neighbour, by its number, and the changes since."""

    def __init__(self, number: int, topics: frozenset[str]) -> None:
        self.number = number
        self.topics = set(topics)
        self.unsaid: set[str] = set()


class Announcer:
    """Makes the announcements of a queue manager; used by whoever works for its hierarchy."""

    def __init__(self, manager: Engine) -> None:
        """Know nothing until :meth:`begin`."""
        self._manager = manager
        self._topics = SubscribedTopics(manager)
        #: How many subscriptions to a topic are behind which neighbour; here, under no name.
        self._sides: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self._told: dict[str, _Told] = {}

    @property
    def has_news(self) -> bool:
        """Whether subscriptions have come or gone that nobody has looked at."""
        return self._topics.has_changes

    def begin(self) -> None:
        """Count what there is and follow it from now on; neighbours are told anew."""
        self._sides.clear()
        self._told.clear()
        for change in self._topics.begin():
            self._count(change)

    def end(self) -> None:
        """Follow no longer."""
        self._topics.end()

    def follow(self) -> None:
        """Take in what has changed."""
        for change in self._topics.changes():
            self._count(change)
            for told in self._told.values():
                told.unsaid.add(change.topic)

    def forget(self, neighbour: str) -> None:
        """Tell a neighbour everything next time."""
        self._told.pop(neighbour, None)

    def news_for(self, neighbour: str, parent: str, *, asks: bool) -> Announcement | None:
        """Return the announcement that a neighbour lacks, None when it knows everything.

        A caller that cannot send it calls :meth:`forget`.
        """
        told, sender = self._told.get(neighbour), self._manager.name
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
        return Announcement(self._manager.name, parent, self._number(), leaves=True)

    def _count(self, change: TopicChange) -> None:
        counts = self._sides[change.topic]
        counts[change.neighbour] += change.step
        if not counts[change.neighbour]:
            del counts[change.neighbour]
        if not counts:
            del self._sides[change.topic]

    def _is_wanted(self, topic: str, neighbour: str) -> bool:
        """Return True if there is a subscription here or behind another neighbour."""
        sides = self._sides.get(topic, ())
        return len(sides) > (neighbour in sides)

    def _number(self) -> int:
        number = next_number(self._manager)
        assert number != WHOLE
        return number
