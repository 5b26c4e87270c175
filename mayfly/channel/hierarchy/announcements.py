"""Announcements between neighbours: the topics that their side of the tree subscribes to.

A whole announcement has all topics and replaces the ones before. A change has the topics that came
and went since the announcement whose number it gives; a neighbour that missed that one asks for all
anew. Each is a JSON object in a message of format MQSTR on SYSTEM.INTER.QMGR.FANREQ.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import mq_error
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
        """Return it as the body of a message."""
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
