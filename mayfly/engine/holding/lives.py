"""The record of a life that ends: its row in the ledger."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from mayfly.engine.delay.staged_row import staged_identity
from mayfly.engine.queues import Found, LocalQueue
from mayfly.lifetime.life import NEXT, OUTCOMES, Event, LifeRecord, State
from mayfly.mqi.descriptor import unpack_descriptor
from mayfly.store.units import EndedLives, EndedMessages, StoredMessage
from mayfly.verbs.contracts.outcomes import Ending

#: The outcome of a life by state and event: those pairs of the table that end a life.
ENDS: dict[State, dict[Event, str]] = {
    state: {event: after.value for event, after in pairs.items() if after in OUTCOMES}
    for state, pairs in NEXT.items()
}
#: Those of a message that nobody holds, by whether its queue is the staging queue.
OPEN_ENDS = ENDS[State.AVAILABLE], ENDS[State.DELAYED]
LOCKED_ENDS = ENDS[State.LOCKED]


#: Fewer records of messages that are alike are made one by one: SQLite takes as long for those.
_ALIKE_MIN: Final = 8


def lives_of(
    found: Sequence[Found], ended_ms: int, outcome: str, ending: Ending
) -> list[EndedLives]:
    """Return the records of lives of one queue that end now, those of alike messages as one.

    Alike are persistent messages beside each other with one descriptor.
    """
    queue = found[0][0]
    lives: list[EndedLives] = []
    start, count = 0, len(found)
    while start < count:
        _queue, first, persistence = found[start]
        end, descriptor = start + 1, first.descriptor
        while end < count and found[end][2] == persistence:
            if found[end][1].descriptor != descriptor:
                break
            end += 1
        part = found[start:end]
        if persistence and len(part) >= _ALIKE_MIN and not queue.is_staging:
            lives.append(_ended_messages(part, ended_ms, outcome, ending))
        else:
            lives += [life_of(queue, row, ended_ms, outcome, ending) for _queue, row, _side in part]
        start = end
    return lives


def _ended_messages(
    found: Sequence[Found], ended_ms: int, outcome: str, ending: Ending
) -> EndedMessages:
    queue, first, _side = found[0]
    descriptor = unpack_descriptor(first.descriptor)
    return EndedMessages(
        [row.k for _queue, row, _side in found],
        queue.definition.name,
        ended_ms,
        outcome,
        descriptor.priority,
        descriptor.report,
        descriptor.reply_to_q,
        descriptor.user_identifier,
        ending.met_by,
        ending.ended_by,
        ending.ended_program,
    )


def life_of(
    queue: LocalQueue,
    row: StoredMessage,
    ended_ms: int,
    outcome: str,
    ending: Ending,
    *,
    reason: int = 0,
) -> LifeRecord:
    """Return the record of a life that ends now; ``outcome`` is the value of its last state."""
    descriptor = unpack_descriptor(row.descriptor)
    msg_id, correl_id, origin_id, body_bytes = (
        staged_identity(row)
        if queue.is_staging
        else (row.msg_id, row.correl_id, row.origin_id, len(row.body))
    )
    values = (
        queue.definition.name,
        msg_id,
        correl_id,
        origin_id,
        row.put_ms,
        row.put_ms if row.deliver_at_ms is None else row.deliver_at_ms,
        row.expire_at_ms,
        ended_ms,
        outcome,
        reason,
        descriptor.priority,
        descriptor.persistence,
        body_bytes,
        descriptor.report,
        descriptor.reply_to_q,
        row.backout_count,
        descriptor.user_identifier,
        row.capped_by,
        ending.met_by,
        ending.ended_by,
        ending.ended_program,
    )
    # Made without a call of Python, as every life comes here.
    return tuple.__new__(LifeRecord, values)
