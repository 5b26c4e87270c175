"""Operators move, copy and delete messages on queues, and undo moves and cancels.

A change is one transaction with its audit. MsgId, CorrelId, context, time of the put in the MQMD
and deadline stay; only a CAPEXPRY of the new queue may shorten the life. Backouts are counted anew.
No report is made by a change. A message that is locked, uncommitted, delayed or gone is left as it
is, and the receipt says so.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from mayfly.engine import queue_state
from mayfly.engine.authority import words
from mayfly.engine.core import Core
from mayfly.engine.delay.schedule import note_audit
from mayfly.engine.delay.schedule_query import found_by_id
from mayfly.engine.delay.staging import staging_path
from mayfly.engine.delivery import MessageIds, OutgoingMessage, check_capacity, new_row
from mayfly.engine.disposal import prepared_with_own_context
from mayfly.engine.engine import Engine
from mayfly.engine.objects.registry import ResolvedQueue
from mayfly.engine.queue_content import (
    PresentMessage,
    audit_entry,
    check_browse,
    find_present,
    local_queue,
)
from mayfly.engine.queues import Found, LocalQueue
from mayfly.engine.remote.transmission import seen_in_transit
from mayfly.engine.session import Session
from mayfly.engine.transaction import Transaction
from mayfly.lifetime.life import Event
from mayfly.lifetime.moments import is_expired
from mayfly.lifetime.times import put_date, put_time
from mayfly.lifetime.window import Window, capped_from
from mayfly.mqi import reasons as rc
from mayfly.mqi.descriptor import Descriptor, pack_descriptor, unpack_descriptor
from mayfly.mqi.errors import mq_error
from mayfly.store.keys import id_hash
from mayfly.store.units import StoredMessage
from mayfly.verbs.contracts.outcomes import TerminatedBy, terminated_by_program
from mayfly.verbs.messages import message_token

#: Receipts for messages that are left as they are, by their state.
_LEFT = {
    "staged": "delayed",
    "uncommitted": "uncommitted",
    "locked": "locked",
    "expired_present": "expired",
}
_GONE = "gone"


class MovedMessage(NamedTuple):
    """A message that was moved: where it was, where it is, and its deadline of before.

    ``place`` is its MsgToken on the queue ``target``. ``expire_at_ms`` is None for no deadline,
    ``capped_by`` as in ``Window``.
    """

    source: str
    target: str
    place: bytes
    expire_at_ms: int | None
    capped_by: str | None


class Receipts(NamedTuple):
    """The number of messages by what became of each, and the moves that can be undone.

    The words are ``moved``, ``copied``, ``deleted`` and ``restored`` for what was done, and
    ``locked``, ``uncommitted``, ``delayed``, ``expired`` and ``gone`` for what was left.
    """

    counts: Counter[str]
    moved: list[MovedMessage]


def move_messages(
    engine: Engine, session: Session, name: str, places: Sequence[bytes], target: str
) -> Receipts:
    """Move messages of a queue to another one, all that can be moved in one transaction.

    ``places`` are their MsgTokens, ``target`` may be ``QUEUE@MANAGER``. They come behind those of
    their priority. Raises MQRC_NOT_AUTHORIZED without GET and BROWSE on the queue and PUT on the
    target, MQRC_OPTIONS_ERROR if the target is the queue itself, and the error with which the
    target refuses one of them; then none is moved.
    """
    _check(session, name, words.GET)
    return _transfer(engine, session, name, places, target, keeps=False)


def copy_messages(
    engine: Engine, session: Session, name: str, places: Sequence[bytes], target: str
) -> Receipts:
    """Copy messages of a queue to another one, all that can be copied in one transaction.

    A copy has the MsgId and the deadline of its message, and asks for no reports: these are owed
    once. Raises the errors of :func:`move_messages`; GET is not needed.
    """
    return _transfer(engine, session, name, places, target, keeps=True)


def delete_messages(
    engine: Engine, session: Session, name: str, places: Sequence[bytes]
) -> Receipts:
    """Delete messages of a queue, all that can be deleted in one transaction; no undo.

    Their lives end as ``cleared``. Expired ones are left: a get, browse or scan discards them, with
    the reports that they owe. Raises MQRC_NOT_AUTHORIZED without GET on the queue.
    """
    _check(session, name, words.GET)
    queue, counts, transaction = local_queue(engine, name), Counter[str](), Transaction()
    with engine.engine_lock:
        engine.check_running()
        now_ms = engine.now_ms()
        for found in _changeable(engine, queue, places, counts):
            queue_state.end(
                engine, transaction, found, Event.CLEAR, now_ms, terminated_by=_by(session)
            )
            counts["deleted"] += 1
        _note(session, transaction, "delete", places, f"on {name}", counts)
    engine.committer.run(transaction)
    return Receipts(counts, [])


def undo_moves(engine: Engine, session: Session, moved: Sequence[MovedMessage]) -> Receipts:
    """Move messages back to where they were, all that are still there in one transaction.

    Each has the deadline again that it had before the move. It comes behind those of its priority.
    Raises the errors of :func:`move_messages`.
    """
    counts, transaction = Counter[str](), Transaction()
    for each in {(one.source, one.target) for one in moved}:
        source, target = each
        _check(session, target, words.GET)
        _check(session, source, words.PUT)
    with engine.engine_lock:
        engine.check_running()
        try:
            for one in moved:
                queue = engine.registry.resolve(one.target).queue
                path = engine.registry.resolve_target(one.source)
                for found in _changeable(engine, queue, [one.place], counts):
                    row = found[1]._replace(expire_at_ms=one.expire_at_ms, capped_by=one.capped_by)
                    if is_expired(row.expire_at_ms, engine.now_ms()):
                        counts["expired"] += 1
                        continue
                    _put(engine, transaction, path, row, caps=False)
                    _end_moved(engine, session, transaction, found)
                    counts["restored"] += 1
        except BaseException:
            engine.committer.take_back(transaction)
            raise
        places = [one.place for one in moved]
        _note(session, transaction, "undo move", places, f"to {moved[0].source}", counts)
    engine.committer.run(transaction)
    return Receipts(counts, [])


def undo_cancel(engine: Engine, session: Session, cancelled: Sequence[Found]) -> Receipts:
    """Delay messages again that were cancelled, all that can be in one transaction.

    Each has its MsgId, delivery time and deadline again; one whose delivery time has passed is due
    at once. One that has expired meanwhile is left away, and so is one whose MsgId another delayed
    message has by now (``replaced``). The caller has checked the authority of the user. Raises the
    error with which the staging queue refuses one of them; then none is delayed again.
    """
    counts, transaction = Counter[str](), Transaction()
    with engine.engine_lock:
        engine.check_running()
        now_ms = engine.now_ms()
        known = {
            row.msg_id
            for row in {row.msg_id: row for _queue, row, _persistence in cancelled}.values()
            if found_by_id(engine, row.msg_id)
        }
        try:
            for _queue, row, persistence in cancelled:
                if row.msg_id in known:
                    counts["replaced"] += 1
                elif is_expired(row.expire_at_ms, now_ms):
                    counts["expired"] += 1
                else:
                    _stage_again(engine, transaction, row, persistence, now_ms)
                    counts["restored"] += 1
        except BaseException:
            engine.committer.take_back(transaction)
            raise
        ids = {row.msg_id for _queue, row, _persistence in cancelled}
        msg_id = ids.pop() if len(ids) == 1 else b""
        _note_id(session, transaction, "undo cancel", msg_id, "", counts)
    engine.committer.run(transaction)
    return Receipts(counts, [])


def _stage_again(
    core: Core, transaction: Transaction, row: StoredMessage, persistence: int, now_ms: int
) -> None:
    """Add a cancelled message to a transaction, as it was; needs the engine lock."""
    path = staging_path(core, len(row.body))
    assert row.deliver_at_ms is not None
    due_ms = max(row.deliver_at_ms, now_ms)
    again = row._replace(
        k=core.staging.order.next_key(due_ms),
        put_ms=now_ms,
        deliver_at_ms=due_ms,
        descriptor=pack_descriptor(_with_put_time(row)),
        # Its id may contain its first key; from now on the index must find it.
        msg_hash=id_hash(row.msg_id),
        released_by=None,
    )
    queue_state.arrive(core, transaction, path.queue, again, persistent=bool(persistence))


def _transfer(
    engine: Engine,
    session: Session,
    name: str,
    places: Sequence[bytes],
    target: str,
    *,
    keeps: bool,
) -> Receipts:
    """Put messages of a queue to another one, and with ``keeps`` False remove them here."""
    check_browse(session, name)
    _check(session, target, words.PUT)
    queue, counts, moved = local_queue(engine, name), Counter[str](), list[MovedMessage]()
    transaction = Transaction()
    with engine.engine_lock:
        engine.check_running()
        path = engine.registry.resolve_target(target)
        if path.queue is queue and path.remote is None:
            text = f"the messages are on {name} already"
            raise mq_error(rc.MQRC_OPTIONS_ERROR, text)
        try:
            for found in _changeable(engine, queue, places, counts):
                new = _put(engine, transaction, path, _as_copied(found[1], keeps=keeps))
                if keeps:
                    counts["copied"] += 1
                    continue
                _end_moved(engine, session, transaction, found)
                counts["moved"] += 1
                if path.remote is None:
                    place = message_token(new.k, new.put_ms)
                    deadline = found[1].expire_at_ms, found[1].capped_by
                    moved.append(MovedMessage(name, path.queue.name, place, *deadline))
        except BaseException:
            engine.committer.take_back(transaction)
            raise
        action = "copy" if keeps else "move"
        _note(session, transaction, action, places, f"from {name} to {target}", counts)
    engine.committer.run(transaction)
    return Receipts(counts, moved)


def _as_copied(row: StoredMessage, *, keeps: bool) -> StoredMessage:
    """Return the row of a message; that of a copy (``keeps``) asks for no reports."""
    if not keeps:
        return row
    return row._replace(
        descriptor=pack_descriptor(unpack_descriptor(row.descriptor)._replace(report=0))
    )


def _put(
    core: Core,
    transaction: Transaction,
    path: ResolvedQueue,
    row: StoredMessage,
    *,
    caps: bool = True,
) -> StoredMessage:
    """Add the put of a message to a transaction, with its ids, context and deadline; return it.

    With ``caps`` a CAPEXPRY of the path counts from now. Raises the error with which the queue
    refuses the message. Needs the engine lock.
    """
    now_ms = core.now_ms()
    # The Expiry in an MQXQH counts from the time of the put, which is another one now.
    row = seen_in_transit(row, now_ms)
    prepared = prepared_with_own_context(core, _with_put_time(row))
    check_capacity(path, prepared, len(row.body))
    window = Window(now_ms, now_ms, row.expire_at_ms, row.capped_by)
    if caps:
        window = capped_from(window, now_ms, path.cap_ms, path.capped_by)
    ids = MessageIds(row.msg_id, row.correl_id, row.msg_id)
    made = new_row(core, path, OutgoingMessage(prepared, window, ids, row.body))
    made = made._replace(topic=row.topic)
    queue_state.arrive(core, transaction, path.queue, made, persistent=prepared.persistent)
    return made


def _with_put_time(row: StoredMessage) -> Descriptor:
    """Return the descriptor of a message with PutDate and PutTime, which are blank by default."""
    descriptor = unpack_descriptor(row.descriptor)
    return descriptor._replace(
        put_date=descriptor.put_date or put_date(row.put_ms),
        put_time=descriptor.put_time or put_time(row.put_ms),
    )


def _end_moved(core: Core, session: Session, transaction: Transaction, found: Found) -> None:
    """Add the end of a moved message's stay on its old queue to a transaction: it is got."""
    now_ms = core.now_ms()
    queue_state.end(core, transaction, found, Event.GET, now_ms, terminated_by=_by(session))


def _changeable(
    engine: Engine, queue: LocalQueue, places: Sequence[bytes], counts: Counter[str]
) -> list[Found]:
    """Return the messages at places of a queue that can be changed; count the others.

    Needs the engine lock.
    """
    found = list[Found]()
    for place in dict.fromkeys(places):
        message = find_present(engine, queue, place)
        if message is None:
            counts[_GONE] += 1
        elif message.state in _LEFT:
            counts[_LEFT[message.state]] += 1
        else:
            found.append(_found(queue, message))
    return found


def _found(queue: LocalQueue, message: PresentMessage) -> Found:
    """Return a message of a queue as the functions of ``queue_state`` take it."""
    return queue, message.row, message.persistence


def _check(session: Session, name: str, wanted: int) -> None:
    """Raise MQRC_NOT_AUTHORIZED unless the user of a session has an authority on a queue."""
    if session.authority is not None:
        session.authority.check_queue(name, wanted)


def _by(session: Session) -> TerminatedBy:
    """Return user and program of a session, for the ledger."""
    context = session.context
    return terminated_by_program(context.user_identifier, context.put_appl_name)


def _note(
    session: Session,
    transaction: Transaction,
    action: str,
    places: Sequence[bytes],
    detail: str,
    counts: Counter[str],
) -> None:
    """Add the audit of a change to its transaction; it names the MsgId of one message alone."""
    departed = [row.msg_id for _queue, row, _persistence in transaction.departures]
    arrived = [row.msg_id for _queue, row, _persistence in transaction.arrivals]
    ids = departed or arrived
    _note_id(
        session, transaction, action, ids[0] if len(places) == 1 and ids else b"", detail, counts
    )


def _note_id(
    session: Session,
    transaction: Transaction,
    action: str,
    msg_id: bytes,
    detail: str,
    counts: Counter[str],
) -> None:
    """Add the audit of a change to its transaction."""
    receipt = ", ".join(f"{count} {word}" for word, count in sorted(counts.items()))
    count = sum(counts[word] for word in ("moved", "copied", "deleted", "restored"))
    entry = audit_entry(session, action, msg_id, detail, receipt or _GONE, count)
    note_audit(entry, transaction, None)
