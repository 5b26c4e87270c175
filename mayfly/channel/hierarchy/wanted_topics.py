"""Topics that the neighbours of a queue manager subscribe to, and their proxies still to change."""

from __future__ import annotations

from mayfly.channel.hierarchy.announcements import WHOLE, Announcement
from mayfly.engine.face.transit import Neighbours
from mayfly.mqi.errors import MQError


class _Wanted:
    """The topics of a neighbour by its announcement of a number; ``open`` ones may lack a proxy."""

    def __init__(self, number: int, topics: frozenset[str], before: set[str]) -> None:
        self.number = number
        self.topics = set(topics)
        self.open = self.topics ^ before


class WantedTopics:
    """Hears announcements and lets neighbours have their proxies."""

    def __init__(self, neighbours: Neighbours) -> None:
        """Know of none."""
        self._neighbours = neighbours
        self._wanted: dict[str, _Wanted] = {}

    def unfulfilled(self) -> list[str]:
        """Return the neighbours that have not been given what they want."""
        return [name for name, wanted in self._wanted.items() if wanted.open]

    def hear(self, announcement: Announcement) -> bool:
        """Note what a neighbour wants; False when what the change follows was never heard."""
        sender, topics = announcement.sender, announcement.topics
        if announcement.follows == WHOLE:
            before = self._neighbours.proxied_for(sender)
            self._wanted[sender] = _Wanted(announcement.number, topics, before)
            return True
        wanted = self._wanted.get(sender)
        if wanted is None or wanted.number not in (announcement.follows, announcement.number):
            return False
        wanted.number = announcement.number
        wanted.topics |= topics
        wanted.topics -= announcement.ended
        wanted.open |= topics | announcement.ended
        return True

    def fulfil(self, neighbour: str) -> MQError | None:
        """Make and remove its proxies; return why one failed, which is to be tried again."""
        wanted, failure = self._wanted[neighbour], None
        for topic in sorted(wanted.open):
            try:
                self._neighbours.give(neighbour, topic, is_wanted=topic in wanted.topics)
            except MQError as error:
                failure = error
            else:
                wanted.open.discard(topic)
        return failure

    def forget(self, neighbour: str) -> None:
        """Forget what it wants: it is no neighbour any longer."""
        self._wanted.pop(neighbour, None)
