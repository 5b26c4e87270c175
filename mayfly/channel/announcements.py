"""The announcements of a publish/subscribe hierarchy: topics that each side subscribes to.

:class:`Announcer` makes those of a queue manager, :class:`WantedTopics` receives those of its
neighbours.

A complete announcement has all topics and replaces the ones before. A change has the topics added
and removed since the announcement whose number it gives; a neighbour that missed that one asks for
a complete announcement. Each is a JSON object in a message of format MQSTR on
SYSTEM.INTER.QMGR.FANREQ.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from typing import Any, NamedTuple

from mayfly.engine import Engine
from mayfly.engine.api.transit import Neighbours, SubscribedTopics, TopicChange, next_number
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import MQError, mq_error
from mayfly.verbs.checks import check_name
from mayfly.verbs.topic_strings import check_topic_string

REQUESTS = "SYSTEM.INTER.QMGR.FANREQ"
#: The value of ``follows`` in a complete announcement.
COMPLETE = 0
_FIELDS = {
    "sender": str,
    "parent": str,
    "number": int,
    "follows": int,
    "topics": list,
    "ended": list,
    "asks": bool,
    "leaves": bool,
}


class Announcement(NamedTuple):
    """A message to a neighbour: the sender's topics, or those added and those ``ended``.

    ``follows`` is the number of the announcement that a change is based on, 0 for a complete one.
    With ``asks`` the sender wants our topics; with ``leaves`` it stops being a neighbour.
    ``parent`` is the sender's parent, empty at the top. The announcements of a sender have
    different numbers.
    """

    sender: str
    parent: str
    number: int
    topics: frozenset[str] = frozenset()
    ended: frozenset[str] = frozenset()
    follows: int = COMPLETE
    asks: bool = False
    leaves: bool = False

    def packed(self) -> bytes:
        """Return the announcement as the JSON body of a message."""
        lists = {"topics": sorted(self.topics), "ended": sorted(self.ended)}
        return json.dumps({**self._asdict(), **lists}).encode()


def read_announcement(body: bytes) -> Announcement:
    """Return the announcement in the body of a message.

    Raises MQRC_FORMAT_ERROR for a body of another form, MQRC_OBJECT_NAME_ERROR for a wrong name of
    its sender, and MQRC_TOPIC_STRING_ERROR for a wrong topic.
    """
    try:
        given = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise _wrong(f"no JSON: {error}") from None
    if not isinstance(given, dict) or given.keys() != _FIELDS.keys():
        raise _wrong(f"its fields are not {', '.join(_FIELDS)}")
    for name, kind in _FIELDS.items():
        if type(given[name]) is not kind:
            raise _wrong(f"{name} {given[name]!r} is no {kind.__name__}")
    check_name(given["sender"])
    topics, ended = (frozenset(map(_checked_topic, given[name])) for name in ("topics", "ended"))
    return Announcement(**{**given, "topics": topics, "ended": ended})


def _checked_topic(topic: Any) -> str:
    """Return a topic of an announcement unchanged.

    Raises MQRC_FORMAT_ERROR if it is no string, MQRC_TOPIC_STRING_ERROR for a wrong topic string.
    """
    if not isinstance(topic, str):
        raise _wrong(f"topic {topic!r} is no text")
    check_topic_string(topic, wildcards=True)
    return topic


def _wrong(detail: str) -> Exception:
    """Return the MQRC_FORMAT_ERROR for an announcement, with a detail."""
    return mq_error(rc.MQRC_FORMAT_ERROR, f"announcement of a neighbour: {detail}")


class _AnnouncedTopics:
    """The topics last announced to a neighbour, and the topics ``changed`` since."""

    def __init__(self, number: int, topics: frozenset[str]) -> None:
        """Take the number and the topics of a complete announcement."""
        self.number = number
        self.topics = set(topics)
        self.changed: set[str] = set()


class Announcer:
    """Makes the announcements of a queue manager; only its hierarchy uses it.

    The subscriptions on each side are counted once, and each later change updates the counts: one
    more subscription costs the same beside ten or ten thousand others.
    """

    def __init__(self, manager: Engine) -> None:
        """Begin without counts; :meth:`begin` counts the subscriptions of ``manager``."""
        self._manager = manager
        self._topics = SubscribedTopics(manager)
        #: topic -> neighbour -> number of subscriptions; those of this queue manager under "".
        self._sides: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self._announced: dict[str, _AnnouncedTopics] = {}

    @property
    def has_changes(self) -> bool:
        """True when subscriptions were made or removed since the last :meth:`follow`."""
        return self._topics.has_changes

    def begin(self) -> None:
        """Count the present subscriptions, and follow their changes from now on.

        The next announcement to each neighbour has all topics.
        """
        self._sides.clear()
        self._announced.clear()
        for change in self._topics.begin():
            self._count(change)

    def end(self) -> None:
        """Stop following the subscriptions of the queue manager."""
        self._topics.end()

    def follow(self) -> None:
        """Update the counts by the subscriptions made and removed since the last call."""
        for change in self._topics.changes():
            self._count(change)
            for announced in self._announced.values():
                announced.changed.add(change.topic)

    def forget(self, neighbour: str) -> None:
        """Let the next announcement to a neighbour have all topics, not only the changes."""
        self._announced.pop(neighbour, None)

    def announcement_for(self, neighbour: str, parent: str, *, asks: bool) -> Announcement | None:
        """Return the next announcement to a neighbour, None when no topic has changed for it.

        The topics are those with a subscription here or behind another neighbour. The first
        announcement has all of them, a later one only the changes. ``parent`` is the parent of this
        queue manager; with ``asks`` the announcement requests all topics of the neighbour. A caller
        that cannot send the announcement calls :meth:`forget`.
        """
        announced, sender = self._announced.get(neighbour), self._manager.name
        if announced is None:
            topics = frozenset(t for t in self._sides if self._is_wanted(t, neighbour))
            complete = Announcement(sender, parent, self._number(), topics, asks=asks)
            self._announced[neighbour] = _AnnouncedTopics(complete.number, topics)
            return complete
        wanted = {topic for topic in announced.changed if self._is_wanted(topic, neighbour)}
        new, ended = wanted - announced.topics, (announced.changed - wanted) & announced.topics
        announced.changed.clear()
        if not (new or ended):
            return None
        follows, announced.number = announced.number, self._number()
        announced.topics |= new
        announced.topics -= ended
        return Announcement(
            sender, parent, announced.number, frozenset(new), frozenset(ended), follows, asks
        )

    def leave_announcement(self, parent: str) -> Announcement:
        """Return the announcement by which this queue manager stops being a neighbour.

        ``parent`` is the parent of this queue manager.
        """
        return Announcement(self._manager.name, parent, self._number(), leaves=True)

    def _count(self, change: TopicChange) -> None:
        """Add one change of a subscription to the counts by topic and neighbour."""
        counts = self._sides[change.topic]
        counts[change.neighbour] += change.step
        if not counts[change.neighbour]:
            del counts[change.neighbour]
        if not counts:
            del self._sides[change.topic]

    def _is_wanted(self, topic: str, neighbour: str) -> bool:
        """Return True if a subscription to the topic exists here or behind another neighbour."""
        sides = self._sides.get(topic, ())
        return len(sides) > (neighbour in sides)

    def _number(self) -> int:
        """Return the number of a new announcement, which no other announcement here has."""
        number = next_number(self._manager)
        assert number != COMPLETE
        return number


class _WantedByNeighbour:
    """The topics that a neighbour wants, and those whose proxy is still to change (``open``)."""

    def __init__(self, number: int, topics: frozenset[str], before: set[str]) -> None:
        """Take the topics of a complete announcement; ``number`` is the number of the announcement.

        ``before`` are the topics for which the neighbour has a proxy subscription now.
        """
        self.number = number
        self.topics = set(topics)
        self.open = self.topics ^ before


class WantedTopics:
    """The topics that neighbours want, by their announcements, and their proxy subscriptions.

    A proxy subscription sends the publications of its topic to the neighbour.
    """

    def __init__(self, neighbours: Neighbours) -> None:
        """Begin without announcements; ``neighbours`` makes and removes proxy subscriptions.

        A proxy subscription is one here on behalf of a neighbour's subscribers.
        """
        self._neighbours = neighbours
        self._wanted: dict[str, _WantedByNeighbour] = {}

    def unfulfilled(self) -> list[str]:
        """Return the neighbours for which proxy subscriptions are still to be made or removed."""
        return [name for name, wanted in self._wanted.items() if wanted.open]

    def receive(self, announcement: Announcement) -> bool:
        """Note the topics that a neighbour wants, and return True; make no proxy subscription yet.

        :meth:`fulfil` makes them. Returns False, and notes nothing, if the announcement is a change
        and the one before it was never received.
        """
        sender, topics = announcement.sender, announcement.topics
        if announcement.follows == COMPLETE:
            before = self._neighbours.proxy_topics(sender)
            self._wanted[sender] = _WantedByNeighbour(announcement.number, topics, before)
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
        """Make and remove the proxy subscriptions that a neighbour's announcements ask for.

        A failure does not stop the others, and a later call tries it again. Returns the error of
        the last failure, None without any.
        """
        wanted, failure = self._wanted[neighbour], None
        for topic in sorted(wanted.open):
            try:
                self._neighbours.set_proxy(neighbour, topic, is_wanted=topic in wanted.topics)
            except MQError as error:
                failure = error
            else:
                wanted.open.discard(topic)
        return failure

    def forget(self, neighbour: str) -> None:
        """Forget the topics that a neighbour wants; its proxy subscriptions stay.

        An unknown neighbour is ignored.
        """
        self._wanted.pop(neighbour, None)
