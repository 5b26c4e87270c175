"""The facts of the end of a life: the party that ended it, and what met an expired message.

Ledger rows and the columns of the lake hold them. A word of `MetBy` keeps its meaning for ever; a
word that this version does not know comes from a later version and is shown as it is.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from mayfly.mqi.descriptor import cut_to_fit


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


class Ending(NamedTuple):
    """The party that ends lives, and for expired messages what met them; None is not known.

    ``ended_by`` is a user, or the name of a channel. ``ended_program`` is the program of the user,
    or without a user the consumer of a pipeline.
    """

    met_by: str | None = None
    ended_by: str | None = None
    ended_program: str | None = None


#: The queue manager itself.
NOBODY = Ending()


def ending_by(user: str, program: str) -> Ending:
    """Return the ending of the lives that a program of a user ends; empty names are not known.

    Both are cut as in a message that it puts: to UserIdentifier and PutApplName (P6).
    """
    known = cut_to_fit(user, "UserIdentifier"), cut_to_fit(program, "PutApplName")
    return Ending(None, known[0] or None, known[1] or None)
