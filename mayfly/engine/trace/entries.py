"""Trace entries of one queue manager: where messages stand now, and how they ended.

An entry is the stay of a message on one queue, present or ended.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple

from mayfly.engine.core import Core
from mayfly.engine.delay.staging import of_given_id
from mayfly.engine.engine import Engine
from mayfly.engine.queues import PERSISTENT, VOLATILE, LocalQueue
from mayfly.engine.remote_queues import embedded_or_none, full_name
from mayfly.engine.requester import Requester
from mayfly.engine.session import Session
from mayfly.engine.settlement import Deliveries
from mayfly.engine.trace.sentences import sentence_of, sentence_of_nothing, steps_of
from mayfly.engine.transaction import Transaction
from mayfly.engine.transit import ChannelBatch
from mayfly.engine.unit_of_work import UnitOfWork
from mayfly.lifetime.dead_letters import is_letter, read_letter
from mayfly.lifetime.life import LifeRecord, State
from mayfly.lifetime.times import SECOND_MS, spelled_moment
from mayfly.mqi import reasons as rc
from mayfly.mqi.constants import (
    MQFB_EXPIRATION,
    MQMT_REPORT,
    MQPER_PERSISTENT,
    MQRO_EXPIRATION,
    MQRO_PASS_CORREL_ID,
    MQUS_TRANSMISSION,
)
from mayfly.mqi.delay_header import HEADER_BYTES, STAGING_QUEUE
from mayfly.mqi.descriptor import Descriptor, unpack_descriptor
from mayfly.mqi.errors import MQError, mq_error
from mayfly.store.claimed_messages import ClaimedMessage
from mayfly.store.keys import key_of_delayed_id, queue_number_of, staging_id
from mayfly.store.messages import MessageHead
from mayfly.store.units import StoredMessage
from mayfly.verbs.checks import Identifier, stored_id
from mayfly.verbs.facts import MAX_TRACE_ENTRIES, MessageTrace, Relation, TraceEntry

#: A message that moves between the searches of queues and ledger is searched for again, so often at
#: most; one that keeps moving is reported where it was last.
_LOOKS = 3
_LOST = State.LOST_AT_RESTART.value
#: A life of a non-persistent message is written up to a second after its end, on a full disk later.
_LATE_MS = 60 * SECOND_MS


def message_trace(engine: Engine, identifier: Identifier) -> MessageTrace:
    """Return where the messages with a MsgId or CorrelId are, and how they ended.

    For an unknown id the trace has no entries, and its sentence says what was searched. Nothing
    changes: an expired message stays until a get, browse or scan discards it. A message in transit
    to another queue manager is found by its MsgId. Call it without the engine lock. Raises
    MQRC_MD_ERROR for a value that is no id, only zeros, or longer than 24 bytes.
    """
    engine.check_running()
    wanted = stored_id(identifier)
    if not wanted:
        raise mq_error(rc.MQRC_MD_ERROR, "the id has no byte but zeros: no message has that MsgId")
    asked_id = _sender_id(engine, wanted)
    entries, is_cut = _look(engine, asked_id)
    msg_ids = own_ids(entries)
    if len(msg_ids) == 1 and asked_id not in msg_ids:
        # A CorrelId, or an id that another queue shows: the sender's MsgId finds all the rest.
        entries, is_cut = _look(engine, msg_ids.pop())
    now_ms, oldest = engine.now_ms(), engine.store.ledger.oldest()
    if entries:
        sentence = sentence_of(entries, now_ms, is_cut=is_cut)
    else:
        totals = engine.store.ledger_writer.totals.items()
        lost_count = sum(each.ended.get(_LOST, 0) for _number, each in totals)
        sentence = sentence_of_nothing(engine.name, wanted, oldest, lost_count)
    position, oldest_ms = (None, None) if oldest is None else oldest
    steps = tuple(steps_of(entries, now_ms))
    answer = wanted, now_ms, sentence, steps, entries, is_cut, position, oldest_ms
    return MessageTrace(*answer, queue_manager=engine.name)


def own_ids(entries: Collection[TraceEntry]) -> set[bytes]:
    """Return the MsgIds of the messages found by MsgId, or else of those found by CorrelId.

    Reports do not count. The set is empty when no message was found.
    """
    own = {entry.msg_id for entry in entries if entry.relation == Relation.MESSAGE}
    return own or {entry.msg_id for entry in entries if entry.relation == Relation.CORRELATED}


def _sender_id(core: Core, identifier: bytes) -> bytes:
    """Return the MsgId that the sender knows, for an id that the staging queue may show (D3).

    The staging queue shows a delayed message under another MsgId. Any other id is returned
    unchanged.
    """
    with core.engine_lock:
        row = of_given_id(core, identifier)
    if row is not None:
        return row.msg_id
    original = staging_id(identifier)
    return original if key_of_delayed_id(original) is not None else identifier


def _look(engine: Engine, asked_id: bytes) -> tuple[tuple[TraceEntry, ...], bool]:
    """Return all entries for an id, ended ones first, and whether there may be more.

    Repeats the search up to three times while a message moves between queue and ledger.
    """
    for _ in range(_LOOKS):
        present = _Present(engine, asked_id).entries()
        ended = _ended_entries(engine, asked_id, present)
        if not {_place(entry) for entry in present} & {_place(entry) for entry in ended}:
            break
    entries = [*ended, *sorted(present, key=lambda entry: entry.put_ms)]
    entries += _reports_elsewhere(engine, entries, asked_id)
    is_cut = max(len(ended), len(present)) >= MAX_TRACE_ENTRIES
    return tuple(_marked(engine, entries)), is_cut


def _place(entry: TraceEntry) -> tuple[bytes, str, int]:
    """Return MsgId, queue and put time, which identify the stay of a message on a queue."""
    return entry.msg_id, entry.queue, entry.put_ms


def _reports_elsewhere(
    engine: Engine, entries: list[TraceEntry], asked_id: bytes
) -> list[TraceEntry]:
    """Return entries of expiration reports that only the CorrelId of their message finds.

    Such reports were requested with MQRO_PASS_CORREL_ID. The list is empty when no expired message
    asked for one.
    """
    passing = {
        entry.correl_id
        for entry in entries
        if entry.relation == Relation.MESSAGE
        and entry.state == State.EXPIRED
        and entry.report & MQRO_PASS_CORREL_ID
    }
    found: list[TraceEntry] = []
    dead_letter_queue = engine.registry.queue_manager.deadq
    known = {(_place(entry), entry.ended_ms) for entry in entries}
    for correl_id in passing - {b"", asked_id}:
        present = _Present(engine, correl_id).entries()
        others = [*_ended_entries(engine, correl_id, entries), *present]
        found += [
            other
            for other in others
            if (_place(other), other.ended_ms) not in known
            and any(is_report_of(entry, other, dead_letter_queue) for entry in entries)
        ]
    return found


def _marked(core: Core, entries: list[TraceEntry]) -> list[TraceEntry]:
    """Return the entries in order, with expiration reports from the ledger marked as reports."""
    dead_letter_queue = core.registry.queue_manager.deadq
    return [
        as_report(entry)
        if entry.relation != Relation.REPORT
        and any(is_report_of(other, entry, dead_letter_queue) for other in entries)
        else entry
        for entry in entries
    ]


def as_report(entry: TraceEntry) -> TraceEntry:
    """Return a copy of an entry marked as an expiration report."""
    return entry._replace(relation=Relation.REPORT.value, reason=entry.reason or MQFB_EXPIRATION)


class _Present:
    """The search for messages with one id that exist now on a queue manager."""

    def __init__(self, engine: Engine, asked_id: bytes) -> None:
        """Prepare the search for messages with the MsgId or CorrelId ``asked_id``."""
        self._engine, self._asked_id = engine, asked_id
        self._processor_status = engine.delay_processor.status()

    def entries(self) -> list[TraceEntry]:
        """Return the entries of messages that exist now; call it without the engine lock.

        Searches queues, open units of work and messages reserved by consumers (claimed). Each kind
        is limited to ``MAX_TRACE_ENTRIES``, as many messages may share a CorrelId.
        """
        core = self._engine
        found: list[TraceEntry] = []
        with core.engine_lock:
            core.check_running()
            core.engine_lock.wait_while(self._is_being_written)
            for queue_owner in queue_owners(core):
                for persistence, each in self._stored(queue_owner):
                    found.append(self._on_queue(queue_owner, persistence, each))
            for session in list(self._engine.sessions):
                found += self._uncommitted(session)
        if any(queue.claimed for queue in core.registry.queues()):
            claimed = core.store.claimed.with_id(self._asked_id, MAX_TRACE_ENTRIES)
            found += map(self._claimed, claimed)
        return found

    def _stored(self, queue_owner: Core) -> Iterator[tuple[int, MessageHead]]:
        """Yield persistence and row of each stored message of one engine with the id.

        Messages on transmission queues are also found by their CorrelId. No message occurs twice.
        """
        asked_id = self._asked_id
        in_transit = [
            q for q in queue_owner.registry.queues() if q.definition.usage == MQUS_TRANSMISSION
        ]
        for persistence in (VOLATILE, PERSISTENT):
            messages = queue_owner.messages(persistence)
            numbers = [q.number for q in queue_owner.registry.queues() if q.present[persistence]]
            found = messages.with_id(numbers, asked_id, MAX_TRACE_ENTRIES)
            for queue in in_transit:
                if queue.present[persistence]:
                    found += messages.in_transit_with_correl_id(
                        queue.low, queue.high, asked_id, MAX_TRACE_ENTRIES
                    )
            known: set[int] = set()
            for each in found:
                if each.row.k not in known:
                    known.add(each.row.k)
                    yield persistence, each

    def _is_being_written(self) -> bool:
        """Return True while a running transaction changes one of the messages."""
        return any(
            isinstance(queue_owner.hidden.get(each.row.k), Transaction)
            for queue_owner in queue_owners(self._engine)
            for _persistence, each in self._stored(queue_owner)
        )

    def _on_queue(self, queue_owner: Core, persistence: int, found: MessageHead) -> TraceEntry:
        """Return the entry of a message on a queue of ``queue_owner``."""
        row, queue = found.row, queue_owner.registry.by_number(queue_number_of(found.row.k))
        # A deleted queue has no messages; those of other members are not searched.
        assert queue is not None
        return self._entry(
            queue,
            found,
            standing_of(self._engine, queue_owner, queue, row, self._processor_status),
            persistent=bool(persistence),
        )

    def _uncommitted(self, session: Session) -> Iterator[TraceEntry]:
        """Yield the entries of messages with the id that a session has put and not committed."""
        for pending, is_through in session.unit_of_work.open_puts():
            row = pending.row
            if self._asked_id in (row.msg_id, row.correl_id):
                # P9: a message that the same unit of work has got is never visible to others.
                place = Standing(
                    State.LOCKED if is_through else State.UNCOMMITTED, unit_of(session)
                )
                found = MessageHead(len(row.body), row)
                yield self._entry(pending.queue, found, place, persistent=pending.persistent)

    def _claimed(self, claimed: ClaimedMessage) -> TraceEntry:
        """Return the entry of a message that a consumer, such as a pipeline, has reserved."""
        queue = self._engine.registry.queue(claimed.queue)
        place = Standing(State.LOCKED, f"consumer {claimed.consumer}, which has claimed it")
        descriptor = unpack_descriptor(claimed.message.row.descriptor)
        is_persistent = descriptor.persistence == MQPER_PERSISTENT
        return self._entry(queue, claimed.message, place, persistent=is_persistent)

    def _entry(
        self, queue: LocalQueue, found: MessageHead, place: Standing, *, persistent: bool
    ) -> TraceEntry:
        """Return the entry of a row with its status; ids and length are those its sender knows.

        ``place`` has state, holder of the lock, and what keeps gets from it.
        """
        row, descriptor = found.row, unpack_descriptor(found.row.descriptor)
        sent = _as_sent(self._engine, queue, row, descriptor)
        msg_id, correl_id, target, reason, _is_report, header_bytes = sent
        return TraceEntry(
            relation=_relation(self._asked_id, row, sent).value,
            state=place.state.value,
            queue=queue.name,
            msg_id=msg_id,
            correl_id=correl_id,
            put_ms=row.put_ms,
            deliver_at_ms=row.put_ms if row.deliver_at_ms is None else row.deliver_at_ms,
            expire_at_ms=row.expire_at_ms,
            ended_ms=None,
            reason=reason,
            target=target,
            holder=place.holder,
            hindrance=place.hindrance,
            persistent=persistent,
            body_bytes=found.body_bytes - header_bytes,
            report=descriptor.report,
            reply_to_q=descriptor.reply_to_q.strip(),
            backout_count=row.backout_count,
            user_identifier=descriptor.user_identifier.strip(),
            program=descriptor.put_appl_name.strip(),
            topic=row.topic or "",
            queue_manager=queue.owner.name,
            capped_by=row.capped_by or "",
        )


def queue_owners(core: Core) -> list[Core]:
    """Return the engines whose stores hold the queues: the queue manager, and its group if any."""
    return [core] if core.group is None else [core, core.group]


class _AsSent(NamedTuple):
    """Ids, target and header of a message as its sender knows them.

    ``reason`` is the reason code of a dead letter or the Feedback of a report, else 0. ``target``
    is empty when the message is on the queue it was put to.
    """

    msg_id: bytes
    correl_id: bytes
    target: str
    reason: int
    is_report: bool
    #: The length of the header of transit before its data.
    header_bytes: int = 0


def _as_sent(core: Core, queue: LocalQueue, row: StoredMessage, descriptor: Descriptor) -> _AsSent:
    """Return a message as its sender knows it, without MQXQH, MQDLH or staging queue header.

    A damaged dead-letter header is ignored.
    """
    embedded = None if queue.is_staging else embedded_or_none(row.body, descriptor)
    if embedded is not None:
        descriptor = embedded.descriptor
    is_report = descriptor.msg_type == MQMT_REPORT
    sent = _AsSent(
        row.msg_id, row.correl_id, "", descriptor.feedback if is_report else 0, is_report
    )
    if queue.is_staging:
        return sent._replace(target=row.target or "")
    if embedded is not None:
        return sent._replace(
            msg_id=embedded.msg_id,
            correl_id=embedded.correl_id,
            target=f"{embedded.remote.queue}@{embedded.remote.manager}",
            header_bytes=len(row.body) - len(embedded.body),
        )
    if is_letter(descriptor):
        try:
            header = read_letter(descriptor, row.body).header
        except MQError:
            return sent
        name, manager = (str(header[field]).strip() for field in ("DestQName", "DestQMgrName"))
        cause = header["Reason"]
        assert isinstance(cause, int)
        return sent._replace(target=full_name(name, manager, core.name), reason=cause)
    return sent


def _relation(asked_id: bytes, row: StoredMessage, sent: _AsSent) -> Relation:
    """Return how a message relates to the wanted id: message (MsgId), report, or correlated."""
    if sent.is_report and sent.correl_id == asked_id:
        return Relation.REPORT
    if asked_id in (sent.msg_id, row.msg_id):
        # With MQRO_PASS_MSG_ID a report has the MsgId of what it is about.
        return Relation.REPORT if sent.is_report else Relation.MESSAGE
    return Relation.CORRELATED


def _ended_entries(core: Core, asked_id: bytes, present: Iterable[TraceEntry]) -> list[TraceEntry]:
    """Return the entries of ended messages with an id as MsgId or CorrelId, sorted by end time.

    ``present`` are the entries of messages that exist now. The ledger is searched back to the put
    of the message with that MsgId; for a CorrelId or an unknown id, to its first row. Each store
    returns at most ``MAX_TRACE_ENTRIES``. Call it without the engine lock. No entry is marked as a
    report, as the ledger does not record message types; see :func:`is_report_of`.
    """
    put_ms = [entry.put_ms for entry in present if entry.relation == Relation.MESSAGE]
    entries: list[TraceEntry] = []
    for queue_owner in queue_owners(core):
        lives = reversed(_lives(core, queue_owner, asked_id, put_ms))
        entries += (entry_of_life(life, asked_id, queue_owner.name, core) for life in lives)
    return sorted(entries, key=lambda entry: entry.ended_ms or 0)


def _lives(core: Core, queue_owner: Core, asked_id: bytes, put_ms: list[int]) -> list[LifeRecord]:
    """Return the ledger records of ended messages with an id in one store, newest first.

    Also appends the put times of the message with that MsgId to ``put_ms``. The search ends at rows
    older than the first put, or after ``MAX_TRACE_ENTRIES`` records.
    """
    lives: list[LifeRecord] = []
    for oldest_ms, found in queue_owner.store.ledger.search(asked_id, MAX_TRACE_ENTRIES):
        lives += found
        put_ms += [life.put_ms for life in found if _is_own(core, asked_id, life)]
        is_enough = put_ms and oldest_ms < min(put_ms) - _LATE_MS
        if is_enough or len(lives) >= MAX_TRACE_ENTRIES:
            break
    return lives[:MAX_TRACE_ENTRIES]


def is_report_of(expired: TraceEntry, other: TraceEntry, dead_letter_queue: str = "") -> bool:
    """Return True if ``other`` is the expiration report about the expired message ``expired``.

    It is recognised by queue and time: only the report comes after the expiry on the reply queue,
    or on ``dead_letter_queue`` when the reply queue refuses it. False when ``expired`` has not
    expired, or asked for no report.
    """
    return (
        expired is not other
        and expired.ended_ms is not None
        and expired.state == State.EXPIRED
        and bool(expired.report & MQRO_EXPIRATION)
        and other.queue in (expired.reply_to_q, dead_letter_queue)
        and other.put_ms >= expired.ended_ms
    )


def _is_own(core: Core | None, asked_id: bytes, life: LifeRecord) -> bool:
    """Return True if a ledger record belongs to the message with the wanted MsgId.

    False when the record only has the id as CorrelId.
    """
    if life.msg_id == asked_id:
        return True
    # Both kinds of queue show a message with another MsgId, and its own as CorrelId (D3, E23).
    return life.correl_id == asked_id and _renames(core, life)


def _renames(core: Core | None, life: LifeRecord) -> bool:
    """Return True if a record's queue shows messages under another MsgId than the sender's.

    These are the staging queue and transmission queues; the sender's MsgId is the CorrelId there.
    Without ``core``, for an archived record, no definition says what is a transmission queue: then
    only the outcome TRANSMITTED shows it.
    """
    if life.queue == STAGING_QUEUE or life.outcome == State.TRANSMITTED:
        return True
    queue = None if core is None else core.registry.by_name(life.queue)
    return queue is not None and queue.definition.usage == MQUS_TRANSMISSION


def entry_of_life(
    life: LifeRecord, asked_id: bytes, owner: str, core: Core | None = None
) -> TraceEntry:
    """Return the trace entry of a ledger record; ``owner`` names its queue manager or group.

    ``asked_id`` is the id that was searched for; the entry says whether it is the MsgId of the
    message. ``core`` has the definitions of its queue, None for an archived record.
    """
    is_renamed = _renames(core, life)
    relation = Relation.MESSAGE if _is_own(core, asked_id, life) else Relation.CORRELATED
    return TraceEntry(
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
        detected_by=life.detected_by or "",
        ended_by=life.ended_by or "",
        ended_program=life.ended_program or "",
    )


# Where a message stands on its queue now: its state, what has locked it, what hinders a get


#: Why the queue manager releases nothing, where its status does not say so itself.
_OF_STATUS = {"running": "", "spark": "DDELAY(SPARK) leaves that to a pipeline"}


class Standing(NamedTuple):
    """The state of a message on its queue, what has locked it, and why it cannot be got.

    ``holder`` and ``hindrance`` are texts, empty when nothing has locked it or hinders a get.
    """

    state: State
    holder: str = ""
    hindrance: str = ""


def standing_of(
    engine: Engine,
    queue_owner: Core,
    queue: LocalQueue,
    row: StoredMessage,
    processor_status: str,
) -> Standing:
    """Return where a stored message stands: locked, delayed or available, and why.

    ``queue_owner`` is the engine whose store has the queue, ``engine`` the queue manager that asks.
    ``processor_status`` is the status of its delay processor. Needs the engine lock.
    """
    owner = queue_owner.hidden.get(row.k)
    until_ms = queue_owner.redeliveries.until_ms(row.k)
    if until_ms is not None:
        times = "once" if row.backout_count == 1 else f"{row.backout_count:,} times"
        text = f"backed out {times}, it is delayed until {spelled_moment(until_ms)} (BODELAY)"
        return Standing(State.DELAYED, hindrance=text)
    if owner is not None and owner is not queue_owner.staging.releasing:
        return Standing(State.LOCKED, holder_of(engine, owner))
    if queue.is_staging:
        if owner is not None:
            return Standing(State.DELAYED, holder="a pipeline that is about to release it")
        return Standing(State.DELAYED, hindrance=_OF_STATUS.get(processor_status, processor_status))
    return Standing(State.AVAILABLE, hindrance=_hindrance(queue_owner, queue))


def holder_of(engine: Engine, owner: object) -> str:
    """Return text that names the owner of a lock, for example ``a channel that is sending it``.

    The text for an unknown owner is ``a change that is on its way to the disk``.
    """
    if isinstance(owner, UnitOfWork):
        for session in list(engine.sessions):
            if owner in session.unit_of_work.parts():
                return unit_of(session)
    if isinstance(owner, UnitOfWork | Deliveries):
        return "an open unit of work"
    if isinstance(owner, Requester):
        return "a browse that has locked it"
    if isinstance(owner, ChannelBatch):
        return "a channel that is sending it"
    return "a change that is on its way to the disk"


def unit_of(session: Session) -> str:
    """Return text such as ``the open unit of work of alice (app)`` for a session."""
    context = session.context
    user, program = context.user_identifier.strip(), context.put_appl_name.strip()
    who = f"{user} ({program})" if user else program
    return f"the open unit of work of {who}"


def _hindrance(queue_owner: Core, queue: LocalQueue) -> str:
    """Return why gets from a queue fail or wait, such as ``GET(DISABLED)``; empty if neither."""
    if queue_owner.registry.resolve(queue.name).get_inhibited:
        return "GET(DISABLED)"
    if queue.exclusive_holder is not None:
        return "a program has it open for exclusive input"
    return ""
