"""The messages that come next, many at a time: live ones and the expired ones met on the way."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from mayfly.engine.core import Core
from mayfly.engine.finding.alive import DISCARD_BATCH
from mayfly.engine.finding.search import ANY, Page, in_order, merged
from mayfly.engine.queues import Found, LocalQueue
from mayfly.engine.requester import Requester
from mayfly.lifetime.moments import is_expired
from mayfly.mqi.constants import MQRO_COD
from mayfly.mqi.descriptor import unpack_descriptor
from mayfly.store.units import StoredMessage

#: In the place of the side: a message that the getter's own unit of work has put.
OWN: Final = -1
#: Rows that one statement reads of a queue with messages on both sides: some it reads in vain.
_ROWS_OF_TWO: Final = 32


class Picked(NamedTuple):
    """Messages that one turn of the lock has found; ``is_cut`` when it has not seen the last one.

    ``confirmed`` are those of ``alive`` that owe a COD report, ``expired`` those that the getter
    may discard.
    """

    alive: list[Found]
    confirmed: list[Found]
    expired: list[Found]
    is_cut: bool


def pick(
    core: Core,
    queue: LocalQueue,
    requester: Requester,
    own: Sequence[StoredMessage],
    now_ms: int,
    *,
    most: int,
    body_bytes: int,
    until_report: bool,
) -> Picked:
    """Return up to ``most`` messages in the order of gets, until their bodies have so many bytes.

    ``own`` are live messages that the getter's unit of work has put. It ends after DISCARD_BATCH
    expired messages, and with ``until_report`` after a message that owes a COD report: that may
    come to this queue.
    """
    alive, confirmed, expired = list[Found](), list[Found](), list[Found]()
    may_discard, met_count, left_bytes = core.settings.discard_on_empty, 0, body_bytes
    page = Page(min(most, _ROWS_OF_TWO) if all(queue.present) else most, body_bytes)
    rows = in_order(core, queue, ANY, queue.low, requester, page=page)
    if own:
        rows = merged(rows, iter([(row, OWN) for row in own]))
    for row, side in rows:
        if row.expire_at_ms is not None and is_expired(row.expire_at_ms, now_ms):
            expired.append((queue, row, side))
            if may_discard and len(expired) == DISCARD_BATCH:
                return Picked(alive, confirmed, expired, is_cut=True)
            continue
        alive.append((queue, row, side))
        met_count = len(expired)
        left_bytes -= len(row.body)
        owes = owes_report(row.descriptor)
        if owes:
            confirmed.append(alive[-1])
        if len(alive) >= most or left_bytes <= 0 or (owes and until_report):
            return Picked(alive, confirmed, expired, is_cut=True)
    # A get that may discard nothing on its own discards what is before a live message (K7).
    return Picked(alive, confirmed, expired if may_discard else expired[:met_count], is_cut=False)


@lru_cache(maxsize=1_024)
def owes_report(descriptor: bytes) -> bool:
    """Return True if a message of a packed descriptor owes its putter a COD report."""
    return bool(unpack_descriptor(descriptor).report & MQRO_COD)
