"""Finds lives that have ended, in the ledger of a queue manager and of its group."""

from __future__ import annotations

from collections.abc import Iterable

from mayfly.engine.core import Core
from mayfly.engine.whereabouts.present import homes
from mayfly.lifetime.life import LifeRecord, State
from mayfly.lifetime.times import SECOND_MS
from mayfly.mqi.constants import MQPER_PERSISTENT, MQRO_EXPIRATION, MQUS_TRANSMISSION
from mayfly.mqi.delay_header import HEADER_BYTES, STAGING_QUEUE
from mayfly.verbs.stories import MOST_STAYS, Relation, Stay

#: A life of a non-persistent message is written up to a second after its end, on a full disk later.
_LATE_MS = 60 * SECOND_MS


def ended_stays(core: Core, asked_id: bytes, present: Iterable[Stay]) -> list[Stay]:
    """Return the lives with an id as MsgId or CorrelId, oldest end first, at most MOST_STAYS.

    ``present`` are the messages with that id that are here now. The search of the ledger goes back
    to the put of the message with that MsgId, before which nothing of it can have ended; for a
    CorrelId, and for an id that is found nowhere, to its first row. Call it without the lock. A
    life says nothing of the type of its message, so that none is a report; :func:`is_report_of`
    tells.
    """
    put_ms = [stay.put_ms for stay in present if stay.relation == Relation.MESSAGE]
    stays: list[Stay] = []
    for home in homes(core):
        lives = reversed(_lives(core, home, asked_id, put_ms))
        stays += (_stay(core, asked_id, life, home.name) for life in lives)
    return sorted(stays, key=lambda stay: stay.ended_ms or 0)


def _lives(core: Core, home: Core, asked_id: bytes, put_ms: list[int]) -> list[LifeRecord]:
    """Return lives of one store, newest first; put times of the asked message go to ``put_ms``."""
    lives: list[LifeRecord] = []
    for oldest_ms, found in home.store.ledger.search(asked_id, MOST_STAYS):
        lives += found
        put_ms += [life.put_ms for life in found if _is_own(core, asked_id, life)]
        is_enough = put_ms and oldest_ms < min(put_ms) - _LATE_MS
        if is_enough or len(lives) >= MOST_STAYS:
            break
    return lives[:MOST_STAYS]


def is_report_of(core: Core, expired: Stay, other: Stay) -> bool:
    """Return True if one message is the expiration report about another, by place and time.

    Nobody else answers an expired message: an answer on its reply queue afterwards is the report,
    and one on the dead-letter queue is a report that the reply queue did not take (R4).
    """
    return (
        expired is not other
        and expired.ended_ms is not None
        and expired.state == State.EXPIRED
        and bool(expired.report & MQRO_EXPIRATION)
        and other.queue in (expired.reply_to_q, core.registry.queue_manager.deadq)
        and other.put_ms >= expired.ended_ms
    )


def _is_own(core: Core, asked_id: bytes, life: LifeRecord) -> bool:
    if life.msg_id == asked_id:
        return True
    # Both kinds of queue show a message with another MsgId, and its own as CorrelId (D3, E23).
    return life.correl_id == asked_id and _renames(core, life)


def _renames(core: Core, life: LifeRecord) -> bool:
    if life.queue == STAGING_QUEUE or life.outcome == State.TRANSMITTED:
        return True
    queue = core.registry.by_name(life.queue)
    return queue is not None and queue.definition.usage == MQUS_TRANSMISSION


def _stay(core: Core, asked_id: bytes, life: LifeRecord, owner: str) -> Stay:
    relation = Relation.MESSAGE if _is_own(core, asked_id, life) else Relation.CORRELATED
    return _as_stay(life, relation, owner, is_renamed=_renames(core, life))


def stay_of_life(life: LifeRecord, asked_id: bytes, owner: str) -> Stay:
    """Return what a life tells that is read without its queue manager, whose name is ``owner``."""
    is_renamed = life.queue == STAGING_QUEUE or life.outcome == State.TRANSMITTED
    is_own = asked_id == life.msg_id or (is_renamed and asked_id == life.correl_id)
    relation = Relation.MESSAGE if is_own else Relation.CORRELATED
    return _as_stay(life, relation, owner, is_renamed=is_renamed)


def _as_stay(life: LifeRecord, relation: Relation, owner: str, *, is_renamed: bool) -> Stay:
    return Stay(
        relation=relation.value,
        state=life.outcome,
        queue=life.queue,
        msg_id=life.correl_id if is_renamed else life.msg_id,
        correl_id=b"" if is_renamed else life.correl_id,
        put_ms=life.put_ms,
        deliver_at_ms=life.deliver_at_ms,
        expire_at_ms=life.expire_at_ms,
        ended_ms=life.ended_ms,
        reason=life.reason,
        target="",
        holder="",
        hindrance="",
        persistent=life.persistent == MQPER_PERSISTENT,
        # The header that the staging queue shows before the data is none of the sender's.
        body_bytes=life.body_bytes - (HEADER_BYTES if life.queue == STAGING_QUEUE else 0),
        report=life.report,
        reply_to_q=life.reply_to_q.strip(),
        backout_count=life.backout_count,
        user_identifier=life.user_identifier.strip(),
        queue_manager=owner,
        capped_by=life.capped_by or "",
        met_by=life.met_by or "",
        ended_by=life.ended_by or "",
        ended_program=life.ended_program or "",
    )
