"""Asks a queue manager what it knows of a MsgId or CorrelId: queues, claims, units, ledger."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from mayfly.engine.core import Core
from mayfly.engine.delay.given_ids import of_given_id
from mayfly.engine.engine import Engine
from mayfly.engine.session import Session
from mayfly.engine.whereabouts.past import ended_stays, is_report_of
from mayfly.engine.whereabouts.present import Present
from mayfly.engine.whereabouts.sentences import sentence_of, sentence_of_nothing
from mayfly.engine.whereabouts.steps import steps_of
from mayfly.lifetime.life import State
from mayfly.mqi import reasons as rc
from mayfly.mqi.constants import MQFB_EXPIRATION, MQRO_PASS_CORREL_ID
from mayfly.mqi.errors import mq_error
from mayfly.store.keys import key_of_delayed_id, staging_id
from mayfly.verbs.checks import Identifier, stored_id
from mayfly.verbs.stories import MOST_STAYS, Relation, Stay, Whereabouts

#: A message that moves between the look at the queues and the one into the ledger is looked for
#: again; one that keeps moving is told of where it was last.
_LOOKS = 3
_LOST = State.LOST_AT_RESTART.value


class Surroundings(NamedTuple):
    """The parts of the engine that a look needs beside its core: sessions and releases."""

    sessions: Iterable[Session]
    processor_status: str


def whereabouts(engine: Engine, identifier: Identifier) -> Whereabouts:
    """Return where the messages with a MsgId or CorrelId are, and what became of them.

    Nothing is changed: an expired message that is still there stays until a get, browse or scan
    meets it. A message on its way to another queue manager is found by its MsgId. Call it without
    the lock. Raises MQRC_MD_ERROR for an id of zeros, of more than 24 bytes, or that is none.
    """
    engine.check_running()
    around = Surroundings(engine.sessions, engine.delay_processor.status())
    wanted = stored_id(identifier)
    if not wanted:
        raise mq_error(rc.MQRC_MD_ERROR, "the id has no byte but zeros: no message has that MsgId")
    asked_id = _sender_id(engine, wanted)
    stays, is_cut = _look(engine, around, asked_id)
    msg_ids = _msg_ids(stays, Relation.MESSAGE) or _msg_ids(stays, Relation.CORRELATED)
    if len(msg_ids) == 1 and asked_id not in msg_ids:
        # A CorrelId, or the MsgId that another queue shows: its sender's leads to all the rest.
        stays, is_cut = _look(engine, around, msg_ids.pop())
    now_ms, oldest = engine.now_ms(), engine.store.ledger.oldest()
    if stays:
        sentence = sentence_of(stays, now_ms, is_cut=is_cut)
    else:
        totals = engine.store.book.totals.items()
        lost_count = sum(each.ended.get(_LOST, 0) for _number, each in totals)
        sentence = sentence_of_nothing(engine.name, wanted, oldest, lost_count)
    position, oldest_ms = (None, None) if oldest is None else oldest
    steps = tuple(steps_of(stays, now_ms))
    answer = wanted, now_ms, sentence, steps, stays, is_cut, position, oldest_ms
    return Whereabouts(*answer, queue_manager=engine.name)


def _msg_ids(stays: Iterable[Stay], relation: Relation) -> set[bytes]:
    return {stay.msg_id for stay in stays if stay.relation == relation}


def _sender_id(core: Core, identifier: bytes) -> bytes:
    """Return the MsgId that the sender knows, for one that the staging queue shows (D3)."""
    with core.engine_lock:
        row = of_given_id(core, identifier)
    if row is not None:
        return row.msg_id
    original = staging_id(identifier)
    return original if key_of_delayed_id(original) is not None else identifier


def _look(core: Core, around: Surroundings, asked_id: bytes) -> tuple[tuple[Stay, ...], bool]:
    """Return everything with an id, and whether there may be more; ends first, then what is."""
    for _ in range(_LOOKS):
        present = Present(core, around.sessions, around.processor_status, asked_id).stays()
        ended = ended_stays(core, asked_id, present)
        if not {_place(stay) for stay in present} & {_place(stay) for stay in ended}:
            break
    stays = [*ended, *sorted(present, key=lambda stay: stay.put_ms)]
    stays += _reports_elsewhere(core, around, stays, asked_id)
    is_cut = max(len(ended), len(present)) >= MOST_STAYS
    return tuple(_marked(core, stays)), is_cut


def _place(stay: Stay) -> tuple[bytes, str, int]:
    return stay.msg_id, stay.queue, stay.put_ms


def _reports_elsewhere(
    core: Core, around: Surroundings, stays: list[Stay], asked_id: bytes
) -> list[Stay]:
    """Return reports that have the CorrelId of what they are about, not its MsgId."""
    passing = {
        stay.correl_id
        for stay in stays
        if stay.relation == Relation.MESSAGE
        and stay.state == State.EXPIRED
        and stay.report & MQRO_PASS_CORREL_ID
    }
    found: list[Stay] = []
    known = {(_place(stay), stay.ended_ms) for stay in stays}
    for correl_id in passing - {b"", asked_id}:
        present = Present(core, around.sessions, around.processor_status, correl_id).stays()
        others = [*ended_stays(core, correl_id, stays), *present]
        found += [
            other
            for other in others
            if (_place(other), other.ended_ms) not in known
            and any(is_report_of(core, stay, other) for stay in stays)
        ]
    return found


def _marked(core: Core, stays: list[Stay]) -> list[Stay]:
    """Return the stays with the expiration reports among those of the ledger told as reports."""
    marked: list[Stay] = []
    for stay in stays:
        is_report = stay.relation != Relation.REPORT and any(
            is_report_of(core, other, stay) for other in stays
        )
        if is_report:
            reason = stay.reason or MQFB_EXPIRATION
            marked.append(stay._replace(relation=Relation.REPORT.value, reason=reason))
        else:
            marked.append(stay)
    return marked
