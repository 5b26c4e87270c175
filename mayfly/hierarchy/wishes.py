"""Topics that the neighbours of a queue manager subscribe to, and their proxies still to change."""

from __future__ import annotations

from mayfly.engine.face.transit import Neighbours
from mayfly.hierarchy.announcements import WHOLE, Announcement
from mayfly.mqi.errors import MQError


class _Wish:
    """The topics of a neighbour by its announcement of a number; ``open`` ones may lack a proxy."""

    def __init__(self, number: int, topics: frozenset[str], before: set[str]) -> None:
        self.number = number
        self.topics = set(topics)
        self.open = self.topics ^ before


class Wishes:
    """Hears announcements and lets neighbours have their proxies."""

    def __init__(self, neighbours: Neighbours) -> None:
        """Know of none."""
        self._neighbours = neighbours
        self._wishes: dict[str, _Wish] = {}

    def unfulfilled(self) -> list[str]:
        """Return the neighbours that have not been given what they want."""
        return [name for name, wish in self._wishes.items() if wish.open]

    def hear(self, announcement: Announcement) -> bool:
        """Note what a neighbour wants; False when what the change follows was never heard."""
        sender, topics = announcement.sender, announcement.topics
        if announcement.follows == WHOLE:
            before = self._neighbours.proxied_for(sender)
            self._wishes[sender] = _Wish(announcement.number, topics, before)
            return True
        wish = self._wishes.get(sender)
        if wish is None or wish.number not in (announcement.follows, announcement.number):
            return False
        wish.number = announcement.number
        wish.topics |= topics
        wish.topics -= announcement.ended
        wish.open |= topics | announcement.ended
        return True

    def fulfil(self, neighbour: str) -> MQError | None:
        """Make and remove its proxies; return why one failed, which is to be tried again."""
        wish, failure = self._wishes[neighbour], None
        for topic in sorted(wish.open):
            try:
                self._neighbours.give(neighbour, topic, is_wanted=topic in wish.topics)
            except MQError as error:
                failure = error
            else:
                wish.open.discard(topic)
        return failure

    def forget(self, neighbour: str) -> None:
        """Forget what it wants: it is no neighbour any longer."""
        self._wishes.pop(neighbour, None)
