"""Announcements between neighbours: the topics that their side of the tree subscribes to.

:class:`Announcer` makes those of a queue manager, :class:`WantedTopics` hears those of its
neighbours.

A whole announcement has all topics and replaces the ones before. A change has the topics that came
and went since the announcement whose number it gives; a neighbour that missed that one asks for all
anew. Each is a JSON object in a message of format MQSTR on SYSTEM.INTER.QMGR.FANREQ.
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
#: ``follows`` of a whole announcement.
WHOLE = 0
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
    """The topics of a neighbour, or those that are new and those that have ``ended``.

    It may ask for ours, or leave, and then has none. ``parent`` is the sender's, empty at the top:
    only of its parent it wants to become a child. No two of a sender have one ``number``.
    """

    sender: str
    parent: str
    number: int
    topics: frozenset[str] = frozenset()
    ended: frozenset[str] = frozenset()
    follows: int = WHOLE
    asks: bool = False
    leaves: bool = False

    def packed(self) -> bytes:
        lists = {"topics": sorted(self.topics), "ended": sorted(self.ended)}
        return json.dumps({**self._asdict(), **lists}).encode()


def read_announcement(body: bytes) -> Announcement:
    """Return the announcement in a message.

    Raises MQRC_FORMAT_ERROR naming what is wrong, MQRC_OBJECT_NAME_ERROR for its sender, and
    MQRC_TOPIC_STRING_ERROR.
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
    if not isinstance(topic, str):
        raise _wrong(f"topic {topic!r} is no text")
    check_topic_string(topic, wildcards=True)
    return topic


def _wrong(detail: str) -> Exception:
    return mq_error(rc.MQRC_FORMAT_ERROR, f"announcement of a neighbour: {detail}")


class _Told:
    """The last announcement to a neighbour, by its number, and the changes since."""

    def __init__(self, number: int, topics: frozenset[str]) -> None:
        self.number = number
        self.topics = set(topics)
        self.unsaid: set[str] = set()


class Announcer:
    """Makes the announcements of a queue manager; its hierarchy alone uses it.

    The subscriptions on each side are counted once, and each later change is followed: one
    subscription more costs the same beside ten of them and beside ten thousand.
    """

    def __init__(self, manager: Engine) -> None:
        self._manager = manager
        self._topics = SubscribedTopics(manager)
        #: topic -> neighbour -> number of subscriptions; those of this queue manager under "".
        self._sides: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self._told: dict[str, _Told] = {}

    @property
    def has_news(self) -> bool:
        """True when subscriptions have come or gone since the last :meth:`follow`."""
        return self._topics.has_changes

    def begin(self) -> None:
        """Count what there is and follow it from now on; neighbours are told anew."""
        self._sides.clear()
        self._told.clear()
        for change in self._topics.begin():
            self._count(change)

    def end(self) -> None:
        self._topics.end()

    def follow(self) -> None:
        """Count the subscriptions that have come and gone since."""
        for change in self._topics.changes():
            self._count(change)
            for told in self._told.values():
                told.unsaid.add(change.topic)

    def forget(self, neighbour: str) -> None:
        """Let the next announcement to a neighbour be a whole one."""
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
        """Return the announcement by which this queue manager leaves a neighbour."""
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


class _Wanted:
    """The topics of a neighbour by its announcement of a number; ``open`` ones may lack a proxy."""

    def __init__(self, number: int, topics: frozenset[str], before: set[str]) -> None:
        self.number = number
        self.topics = set(topics)
        self.open = self.topics ^ before


class WantedTopics:
    """Hears announcements and lets neighbours have their proxies."""

    def __init__(self, neighbours: Neighbours) -> None:
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
        self._wanted.pop(neighbour, None)
