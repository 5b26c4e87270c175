"""Finds messages that are here now: on queues, staged, claimed, or in open units of work."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from mayfly.engine.core import Core
from mayfly.engine.deliveries import Deliveries
from mayfly.engine.queues import PERSISTENT, VOLATILE, LocalQueue
from mayfly.engine.remote.resolution import full_name
from mayfly.engine.remote.wrapping import embedded_or_none
from mayfly.engine.requester import Requester
from mayfly.engine.session import Session
from mayfly.engine.transaction import Transaction
from mayfly.engine.transit import Shipment
from mayfly.engine.unit_of_work import UnitOfWork
from mayfly.lifetime.dead_letters import is_letter, read_letter
from mayfly.lifetime.life import State
from mayfly.mqi.constants import MQMT_REPORT, MQPER_PERSISTENT, MQUS_TRANSMISSION
from mayfly.mqi.descriptor import Descriptor, unpack_descriptor
from mayfly.mqi.errors import MQError
from mayfly.store.claimed import Claimed
from mayfly.store.keys import queue_number_of
from mayfly.store.messages import Outlined
from mayfly.store.units import StoredMessage
from mayfly.verbs.stories import MOST_STAYS, Relation, Stay

_PIPELINE = "a pipeline that is about to release it"
_CHANNEL = "a channel that is sending it"
_BROWSE = "a browse that has locked it"
#: Why the queue manager releases nothing, where its status does not say so itself.
_OF_STATUS = {"running": "", "spark": "DDELAY(SPARK) leaves that to a pipeline"}
_WRITING = "a change that is on its way to the disk"


class _Place(NamedTuple):
    """How a message stands on its queue."""

    state: State
    holder: str = ""
    hindrance: str = ""


class Present:
    """Looks for messages with one id; the result is true of the moment of the call."""

    def __init__(
        self, core: Core, sessions: Iterable[Session], processor_status: str, asked_id: bytes
    ) -> None:
        """``sessions`` are those that may have open units of work."""
        self._core = core
        self._sessions = sessions
        self._processor_status = processor_status
        self._asked_id = asked_id

    def stays(self) -> list[Stay]:
        """Return what is here; call it without the lock.

        Each kind is cut behind MOST_STAYS, so that a CorrelId that a million messages share costs
        no more than another.
        """
        core = self._core
        found: list[Stay] = []
        with core.engine_lock:
            core.check_running()
            core.engine_lock.wait_while(self._is_being_written)
            for home in homes(core):
                for persistence, each in self._stored(home):
                    found.append(self._on_queue(home, persistence, each))
            for session in list(self._sessions):
                found += self._uncommitted(session)
        if any(queue.claimed for queue in core.registry.queues()):
            claimed = core.store.claimed.with_id(self._asked_id, MOST_STAYS)
            found += map(self._claimed, claimed)
        return found

    def _stored(self, home: Core) -> Iterator[tuple[int, Outlined]]:
        asked_id = self._asked_id
        in_transit = [q for q in home.registry.queues() if q.definition.usage == MQUS_TRANSMISSION]
        for persistence in (VOLATILE, PERSISTENT):
            messages = home.messages(persistence)
            numbers = [q.number for q in home.registry.queues() if q.present[persistence]]
            found = messages.with_id(numbers, asked_id, MOST_STAYS)
            for queue in in_transit:
                if queue.present[persistence]:
                    found += messages.in_transit_with_correl_id(
                        queue.low, queue.high, asked_id, MOST_STAYS
                    )
            known: set[int] = set()
            for each in found:
                if each.row.k not in known:
                    known.add(each.row.k)
                    yield persistence, each

    def _is_being_written(self) -> bool:
        """Return True if a transaction under way changes one of the messages; it ends soon."""
        core = self._core
        return any(
            isinstance(home.hidden.get(each.row.k), Transaction)
            for home in homes(core)
            for _side, each in self._stored(home)
        )

    def _on_queue(self, home: Core, persistence: int, found: Outlined) -> Stay:
        row, queue = found.row, home.registry.by_number(queue_number_of(found.row.k))
        # A queue that was deleted has no messages; one of another member is not asked for.
        assert queue is not None
        return self._stay(queue, found, self._place(home, queue, row), persistent=bool(persistence))

    def _place(self, home: Core, queue: LocalQueue, row: StoredMessage) -> _Place:
        owner = home.hidden.get(row.k)
        if owner is not None and owner is not home.staging.releasing:
            return _Place(State.LOCKED, self._holder(owner))
        if queue.is_staging:
            if owner is not None:
                return _Place(State.DELAYED, holder=_PIPELINE)
            status = self._processor_status
            return _Place(State.DELAYED, hindrance=_OF_STATUS.get(status, status))
        return _Place(State.AVAILABLE, hindrance=_hindrance(home, queue))

    def _holder(self, owner: object) -> str:
        if isinstance(owner, UnitOfWork):
            for session in list(self._sessions):
                if owner in session.unit_of_work.parts():
                    return _unit_of(session)
        if isinstance(owner, UnitOfWork | Deliveries):
            return "an open unit of work"
        if isinstance(owner, Requester):
            return _BROWSE
        return _CHANNEL if isinstance(owner, Shipment) else _WRITING

    def _uncommitted(self, session: Session) -> Iterator[Stay]:
        for pending, is_through in session.unit_of_work.open_puts():
            row = pending.row
            if self._asked_id in (row.msg_id, row.correl_id):
                # P9: a message that the same unit of work has got again nobody else will ever see.
                place = _Place(State.LOCKED if is_through else State.UNCOMMITTED, _unit_of(session))
                found = Outlined(len(row.body), row)
                yield self._stay(pending.queue, found, place, persistent=pending.persistent)

    def _claimed(self, claimed: Claimed) -> Stay:
        queue = self._core.registry.queue(claimed.queue)
        place = _Place(State.LOCKED, f"consumer {claimed.consumer}, which has claimed it")
        descriptor = unpack_descriptor(claimed.message.row.descriptor)
        is_persistent = descriptor.persistence == MQPER_PERSISTENT
        return self._stay(queue, claimed.message, place, persistent=is_persistent)

    def _stay(self, queue: LocalQueue, found: Outlined, place: _Place, *, persistent: bool) -> Stay:
        row, descriptor = found.row, unpack_descriptor(found.row.descriptor)
        sent = _as_sent(self._core, queue, row, descriptor)
        msg_id, correl_id, target, reason, _is_report, header_bytes = sent
        return Stay(
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
            queue_manager=queue.home.name,
            capped_by=row.capped_by or "",
        )


def homes(core: Core) -> list[Core]:
    """Return whose stores a queue manager may have messages in: its own, and that of its group."""
    return [core] if core.group is None else [core, core.group]


class _Sent(NamedTuple):
    """A message as its sender knows it, where it goes from here, and why it is here."""

    msg_id: bytes
    correl_id: bytes
    target: str
    reason: int
    is_report: bool
    #: The length of the header of transit before its data.
    header_bytes: int = 0


def _as_sent(core: Core, queue: LocalQueue, row: StoredMessage, descriptor: Descriptor) -> _Sent:
    embedded = None if queue.is_staging else embedded_or_none(row.body, descriptor)
    if embedded is not None:
        descriptor = embedded.descriptor
    is_report = descriptor.msg_type == MQMT_REPORT
    sent = _Sent(row.msg_id, row.correl_id, "", descriptor.feedback if is_report else 0, is_report)
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


def _relation(asked_id: bytes, row: StoredMessage, sent: _Sent) -> Relation:
    if sent.is_report and sent.correl_id == asked_id:
        return Relation.REPORT
    if asked_id in (sent.msg_id, row.msg_id):
        # With MQRO_PASS_MSG_ID a report has the MsgId of what it is about.
        return Relation.REPORT if sent.is_report else Relation.MESSAGE
    return Relation.CORRELATED


def _hindrance(home: Core, queue: LocalQueue) -> str:
    """Say why nobody, or hardly anybody, can get from a queue, empty when anybody can."""
    if home.registry.resolve(queue.name).get_inhibited:
        return "GET(DISABLED)"
    if queue.exclusive_holder is not None:
        return "a program has it open for exclusive input"
    return ""


def _unit_of(session: Session) -> str:
    context = session.context
    user, program = context.user_identifier.strip(), context.put_appl_name.strip()
    who = f"{user} ({program})" if user else program
    return f"the open unit of work of {who}"
