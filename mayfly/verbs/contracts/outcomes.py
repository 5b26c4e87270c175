"""The end of a life as it is stored: its outcome, the party that ended it, and what met it.

Ledger rows, totals, balances and the columns of the lake hold them: an outcome by its code, the
word of `lifetime.life.State`, and the event that met an expired message by a word of `MetBy`. Codes
and words keep their meaning for ever. One that this version does not know comes from a later
version: it is kept and shown as it is. Counts are stored as a JSON object from code to count; a
code that is missing counted nothing.
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
    """Return counts of ended lives by outcome code, as stored JSON."""
    return _ENCODER.encode(counts)


def unpack_counts(stored: str) -> dict[str, int]:
    """Return counts of ended lives by outcome code, without zeros, from stored JSON.

    Codes of later versions are kept. Raises ValueError for other text.
    """
    counts = json.loads(stored)
    if not isinstance(counts, dict) or {type(count) for count in counts.values()} - {int}:
        raise ValueError(f"{stored!r} does not say how often lives ended")
    return {code: count for code, count in counts.items() if count}


class MetBy(StrEnum):
    """The event that met an expired message, which ends its life."""

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
    """The party that ends lives, and for expired messages what met them; None is not known.

    ``ended_by`` is a user, or the name of a channel. ``ended_program`` is the program of the user,
    or without a user the consumer of a pipeline.
    """

    met_by: str | None = None
    ended_by: str | None = None
    ended_program: str | None = None


#: The queue manager itself.
NOBODY = TerminatedBy()


def terminated_by_program(user: str, program: str) -> TerminatedBy:
    """Return the ending of the lives that a program of a user ends; empty names are not known.

    Both are cut as in a message that it puts: to UserIdentifier and PutApplName (P6).
    """
    known = cut_to_fit(user, "UserIdentifier"), cut_to_fit(program, "PutApplName")
    return TerminatedBy(None, known[0] or None, known[1] or None)
