"""The record of a life that ends: its row in the ledger."""

from __future__ import annotations

from mayfly.contracts.endings import Ending
from mayfly.engine.delay.staged_row import staged_identity
from mayfly.engine.queues import LocalQueue
from mayfly.lifetime.life import NEXT, OUTCOMES, Event, LifeRecord, State
from mayfly.mqi.descriptor import unpack_descriptor
from mayfly.store.units import StoredMessage

#: The outcome of a life by state and event: those pairs of the table that end a life.
ENDS: dict[State, dict[Event, str]] = {
    state: {event: after.value for event, after in pairs.items() if after in OUTCOMES}
    for state, pairs in NEXT.items()
}
#: Those of a message that nobody holds, by whether its queue is the staging queue.
OPEN_ENDS = ENDS[State.AVAILABLE], ENDS[State.DELAYED]
LOCKED_ENDS = ENDS[State.LOCKED]


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
