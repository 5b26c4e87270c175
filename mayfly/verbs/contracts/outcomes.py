"""Outcomes: how a message's stay on a queue ended, as stored codes, and by which user or event.

Ledger rows, totals, balances and the columns of the lake hold them: an outcome by its code, the
word of `lifetime.life.State`, and what detected an expired message by a word of `DetectedBy`.
Codes and words keep their meaning for ever. One that this version does not know comes from a later
version: it is kept and shown as it is. Counts are stored as a JSON object from code to count; a
missing code has count 0.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple

from mayfly.lifetime.life import OUTCOMES
from mayfly.mqi.descriptor import cut_to_fit

#: The codes that this version knows, in the order in which reports list them.
OUTCOME_CODES: tuple[str, ...] = tuple(outcome.value for outcome in OUTCOMES)
#: The name under which columns count all lives whose outcome this version does not know.
OTHER_OUTCOMES = "other"
#: json.dumps would only look for it, and each durable put packs counts.
_ENCODER = json.JSONEncoder()


def pack_counts(counts: Mapping[str, int]) -> str:
    """Return counts of ended messages by outcome code, as JSON text for the store."""
    return _ENCODER.encode(counts)


def unpack_counts(stored: str) -> dict[str, int]:
    """Return counts of ended messages by outcome code from stored JSON text, without zeros.

    Codes of later versions are kept. Raises ValueError for any other text.
    """
    counts = json.loads(stored)
    if not isinstance(counts, dict) or {type(count) for count in counts.values()} - {int}:
        raise ValueError(f"{stored!r} does not say how often lives ended")
    return {code: count for code, count in counts.items() if count}


class DetectedBy(StrEnum):
    """The event at which the queue manager found an expired message, and so discarded it."""

    #: A get, of whatever kind, by a program.
    GET = "get"
    #: A browse by a program.
    BROWSE = "browse"
    #: The expiry scan (EXPRYINT).
    SCAN = "scan"
    #: The release of delayed messages: it had expired when its delivery time came (D18).
    RELEASE = "release"
    #: A channel that empties its transmission queue.
    CHANNEL = "channel"
    #: A claim of a pipeline.
    CLAIM = "claim"
    #: The commit of the unit of work that had put it (E17).
    COMMIT = "commit"
    #: Its own put, by a pipeline that named a deadline which had passed.
    PUT = "put"
    #: A publication or subscription, for the retained publication of a topic.
    TOPIC = "topic"


class TerminatedBy(NamedTuple):
    """The user or channel that ended messages, and the event that found expired ones.

    None is not known. ``ended_by`` is a user, or the name of a channel. ``ended_program`` is the
    program of the user, or without a user the consumer of a pipeline.
    """

    detected_by: str | None = None
    ended_by: str | None = None
    ended_program: str | None = None


#: The queue manager itself.
NOBODY = TerminatedBy()


def terminated_by_program(user: str, program: str) -> TerminatedBy:
    """Return the TerminatedBy for messages that a program of a user has ended.

    ``user`` is cut to the length of UserIdentifier, ``program`` to that of PutApplName. An empty
    name becomes None.
    """
    known = cut_to_fit(user, "UserIdentifier"), cut_to_fit(program, "PutApplName")
    return TerminatedBy(None, known[0] or None, known[1] or None)
