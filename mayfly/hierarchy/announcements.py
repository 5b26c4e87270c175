"""What neighbours tell each other: each the topics that its side of the tree subscribes to.

An announcement says all of them, so that the last one counts and none has to be kept in order with
others. It is a JSON object in a message of format MQSTR on SYSTEM.INTER.QMGR.FANREQ.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from mayfly.engine.objects.registry import check_name
from mayfly.engine.pubsub.topic_strings import check_topic_string
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import mq_error

REQUESTS = "SYSTEM.INTER.QMGR.FANREQ"
_FIELDS = {"sender": str, "parent": str, "topics": list, "asks": bool, "leaves": bool}


class Announcement(NamedTuple):
    """The topics of a neighbour; it may ask for ours, or leave, and then has none.

    ``parent`` is the sender's, empty at the top: only of its parent it wants to become a child.
    """

    sender: str
    parent: str
    topics: frozenset[str]
    asks: bool = False
    leaves: bool = False

    def packed(self) -> bytes:
        """Return it as the body of a message."""
        return json.dumps({**self._asdict(), "topics": sorted(self.topics)}).encode()


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
        if not isinstance(given[name], kind):
            raise _wrong(f"{name} {given[name]!r} is no {kind.__name__}")
    check_name(given["sender"])
    return Announcement(
        given["sender"],
        given["parent"],
        frozenset(map(_checked_topic, given["topics"])),
        given["asks"],
        given["leaves"],
    )


def _checked_topic(topic: Any) -> str:
    if not isinstance(topic, str):
        raise _wrong(f"topic {topic!r} is no text")
    check_topic_string(topic, wildcards=True)
    return topic


def _wrong(detail: str) -> Exception:
    return mq_error(rc.MQRC_FORMAT_ERROR, f"announcement of a neighbour: {detail}")
