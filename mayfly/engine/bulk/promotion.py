"""Staged rows become messages: one transaction of them, with every check of a put.

Rows of one kind that nothing hinders are put in bulk, by one statement; the others one by one, as
in a unit of work. Both ways keep the order of the rows. A row that a put would refuse goes to the
dead-letter destination; one whose deadline has passed is discarded where it would have lived.
"""

from __future__ import annotations

from typing import NamedTuple

from mayfly.engine import holding
from mayfly.engine.bulk.bulk_puts import BulkPuts, Lane
from mayfly.engine.bulk.staged_rows import (
    Kind,
    StagedRows,
    Times,
    ids_of,
    times_of,
)
from mayfly.engine.core import Core
from mayfly.engine.delivery import Ids, OutgoingMessage, check_room, new_id, new_row, size_on
from mayfly.engine.descriptors import Context, Prepared, check_header, prepare
from mayfly.engine.disposal import dead_letter_of, dead_letter_queue_of, send_report
from mayfly.engine.expiry import follow_expiry
from mayfly.engine.objects.registry import Path
from mayfly.engine.put import PutRequest, put
from mayfly.engine.queues import LocalQueue
from mayfly.engine.transaction import Transaction
from mayfly.engine.unit_of_work import UnitOfWork
from mayfly.lifetime.life import LifeRecord
from mayfly.lifetime.reports import Cause, Original, is_owed
from mayfly.lifetime.window import Window
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.descriptor import Descriptor
from mayfly.mqi.errors import MQError, mq_error
from mayfly.store.units import StoredMessage
from mayfly.verbs.contracts.outcomes import Ending, MetBy
from mayfly.verbs.contracts.stages import SOURCE_ROW

#: The queue manager is going: no fault of the row.
_NOT_THE_ROW = (
    rc.MQRC_CONNECTION_BROKEN,
    rc.MQRC_Q_MGR_STOPPING,
    rc.MQRC_STORAGE_MEDIUM_FULL,
)


#: PutApplName of what a pipeline puts.
_PROGRAM = "mayfly sink"


class Surrendered(NamedTuple):
    """A row that nobody takes: its number at its source, and why."""

    source_row: int
    reason: int
    text: str


#: A row may be taken later: its queue is full or inhibited, or in use by somebody else.
_PASSING = (
    *_NOT_THE_ROW,
    rc.MQRC_Q_FULL,
    rc.MQRC_PUT_INHIBITED,
    rc.MQRC_OBJECT_IN_USE,
    rc.MQRC_NOT_AUTHORIZED,
)


class Counted(NamedTuple):
    """The outcome of the rows of a transaction."""

    put_count: int
    expired_count: int
    refused_count: int


class Promotion(UnitOfWork):
    """The unit of work of one transaction: staged rows, and the statements that go with them."""

    def __init__(self, core: Core, dead_letter_queue: str, *, surrenders: bool = False) -> None:
        """Begin empty; without a name, refused rows go to the queue manager's DEADQ.

        With ``surrenders`` rows that have a number at their source and that will never be taken are
        left out.
        """
        super().__init__(core, Ending(ended_program=_PROGRAM))
        self._dead_letter_queue = dead_letter_queue
        self._context = Context("", c.MQAT_UNIX, _PROGRAM, core.name)
        self._now_ms = core.now_ms()
        self._lanes: list[Lane] = []
        self._expired: list[tuple[LocalQueue, LifeRecord]] = []
        #: The deadline that the row being put names; it does not move while the put takes time.
        self._deadline_ms: int | None = None
        self._put_count = self._expired_count = 0
        self.refusals: list[MQError] = []
        self._surrenders = surrenders
        self.surrendered: list[Surrendered] = []

    @property
    def is_empty(self) -> bool:
        """Never: the note of the stage's progress is always part of it."""
        return False

    @property
    def counted(self) -> Counted:
        """The outcome of the rows."""
        return Counted(self._put_count, self._expired_count, len(self.refusals))

    def check_room(self, operation_count: int = 1, queue: LocalQueue | None = None) -> int:
        """Take all: not MAXUMSGS but the size of a transaction is its limit."""
        return operation_count

    def add(self, rows: StagedRows) -> None:
        """Put the rows of a blob, in their order; call it without the lock.

        Raises MQRC_CONNECTION_BROKEN, MQRC_Q_MGR_STOPPING, or why the dead-letter destination
        takes no row; back the whole out then.
        """
        if not rows.row_count:
            return
        in_bulk = BulkPuts(self._core, rows, self._now_ms, self._lane)
        row = 0
        while row < rows.row_count:
            with self._core.engine_lock:
                self._core.check_running()
                after = in_bulk.add_from(row)
            self._put_count += after - row
            if after < rows.row_count:
                self._add_alone(rows, after, in_bulk.kind(after))
            row = after + 1

    def put(self, queue: LocalQueue, row: StoredMessage, *, persistent: bool) -> None:
        """Add a put, its life ending at the very deadline that the row names."""
        deadline_ms = self._deadline_ms
        if (
            deadline_ms is not None
            and row.expire_at_ms is not None
            and (deadline_ms < row.expire_at_ms)
        ):
            row = row._replace(expire_at_ms=deadline_ms, capped_by=None)
        super().put(queue, row, persistent=persistent)

    def backout(self, *, counts: bool = True) -> None:
        """Withdraw everything."""
        super().backout()
        with self._core.engine_lock:
            for lane in self._lanes:
                holding.withdraw(lane.queue, len(lane.keys))
            for queue, _life in self._expired:
                holding.withdraw_expired(queue)
            self._lanes, self._expired = [], []

    def _work(self) -> Transaction:
        transaction = super()._work()
        for lane in self._lanes:
            if lane.keys:
                for bulk in lane.bulks():
                    transaction.unit.put_bulk(lane.queue.number, bulk)
                holding.arrive_in_bulk(transaction, lane.queue, lane.keys)
        for queue, life in self._expired:
            holding.end_expired(transaction, queue, life)
        # From here on the transaction holds them, and takes them back when it fails.
        self._lanes, self._expired = [], []
        return transaction

    def _lane(self, kind: Kind) -> Lane | None:
        """Return a new lane for rows of a kind, None when they must go one by one."""
        assert self._core.engine_lock.is_held()
        core = self._core
        if kind.refusal is not None:
            return None
        try:
            path = core.registry.resolve_target(kind.queue)
            prepared = self._prepared(kind, path)
        except MQError:
            return None
        queue = path.queue
        if (
            not prepared.persistent
            or prepared.checks_header
            or path.put_inhibited
            or path.transmits
            or queue.home is not core
            or queue.is_staging
            or path.is_temporary
            or is_owed(Cause.COA, prepared.descriptor)
        ):
            return None
        lane = Lane(path, prepared, path.largest_bytes, self._now_ms)
        self._lanes.append(lane)
        return lane

    def _prepared(self, kind: Kind, path: Path) -> Prepared:
        defaults = path.default_priority, path.default_persistence
        return prepare(kind.descriptor, *defaults, self._context, kind.context_option)

    def _add_alone(self, rows: StagedRows, row: int, kind: Kind) -> None:
        try:
            self._put_alone(rows, row, kind)
        except MQError as refusal:
            if refusal.reason in _NOT_THE_ROW:
                raise
            try:
                self._dead_letter(rows, row, kind, refusal)
            except MQError as error:
                source_row = rows.value(SOURCE_ROW, row) if self._surrenders else None
                if source_row is None or {error.reason, refusal.reason} & {*_PASSING}:
                    raise
                self.surrendered.append(Surrendered(source_row, refusal.reason, error.detail))
            else:
                self.refusals.append(refusal)

    def _put_alone(self, rows: StagedRows, row: int, kind: Kind) -> None:
        if kind.refusal is not None:
            raise kind.refusal
        if row in rows.without_body:
            raise mq_error(rc.MQRC_BUFFER_ERROR, "payload is null")
        path = self._core.registry.resolve_target(kind.queue)
        if path.queue.home is not self._core:
            raise mq_error(rc.MQRC_OBJECT_TYPE_ERROR, f"{kind.queue} is shared: no sink for it")
        ids, times = ids_of(rows, row), self._times_of(rows, row)
        if times.deadline_ms is not None and times.life_ms is not None and times.life_ms <= 0:
            self._discard(path, kind, ids, (rows.body(row), times.deadline_ms))
            return
        self._put(path, rows.body(row), kind, (ids, times))
        self._put_count += 1

    def _times_of(self, rows: StagedRows, row: int) -> Times:
        core = self._core
        return times_of(rows, row, core.now_ms(), core.settings.longest_life_ms)

    def _put(
        self, path: Path, body: bytes, kind: Kind, asked: tuple[tuple[bytes, bytes], Times]
    ) -> bytes:
        """Put as any application does, under the name of the sink; return the MsgId."""
        ids, times = asked
        request = PutRequest(
            kind.descriptor, *ids, times.life_ms, times.delay_ms, kind.context_option
        )
        self._deadline_ms = times.deadline_ms
        result = put(self._core, path, body, request, context=self._context, unit_of_work=self)
        return result.msg_id

    def _discard(
        self, path: Path, kind: Kind, ids: tuple[bytes, bytes], content: tuple[bytes, int]
    ) -> None:
        """Begin and end the life of a row whose deadline has passed, and report it (E14)."""
        core, (body, deadline_ms) = self._core, content
        prepared = self._prepared(kind, path)
        if prepared.checks_header:
            check_header(prepared.descriptor, body)
        with core.engine_lock:
            path = core.registry.refreshed(path)
            size_bytes = size_on(path, prepared.descriptor, len(body))
            check_room(path, size_bytes, persistent=prepared.persistent)
            now_ms = core.now_ms()
            own = Ids(ids[0] or new_id(core), ids[1])
            window = Window(now_ms, now_ms, deadline_ms)
            message = new_row(core, path, OutgoingMessage(prepared, window, own, body))
            holding.hold_expired(path.queue)
            met = self.ending._replace(met_by=MetBy.PUT.value)
            life = holding.life_of_expired(path.queue, message, now_ms, met)
            self._expired.append((path.queue, life))
            self._expired_count += 1
            original = Original(prepared.descriptor, own.msg_id, own.correl_id, body, 0)
            followed = Transaction()
            follow_expiry(core, followed, path.queue, message, original)
            self.adopt(followed)

    def _report(self, cause: Cause, original: Original, reason: int = 0) -> None:
        report = Transaction()
        send_report(self._core, report, cause, original, reason)
        self.adopt(report)

    def _dead_letter(self, rows: StagedRows, row: int, kind: Kind, refusal: MQError) -> None:
        """Put a refused row on the dead-letter destination behind an MQDLH (Q1).

        Raises why that takes it not, naming the option: else the row would be lost.
        """
        core = self._core
        name = self._dead_letter_queue or core.registry.queue_manager.deadq
        body = rows.body(row)
        descriptor = _sound(kind.descriptor, self._context)
        dead, header = dead_letter_of(core, descriptor, refusal.reason, kind.queue)
        as_dead = Kind(name, dead, kind.context_option)
        try:
            ids = ids_of(rows, row)
        except MQError:
            ids = b"", b""
        try:
            life = self._times_of(rows, row)._replace(delay_ms=0)
        except MQError:
            life = Times(0, None, None)
        try:
            path = core.registry.resolve_target(name or dead_letter_queue_of(core))
            msg_id = self._put(path, header + body, as_dead, (ids, life))
        except MQError as error:
            if error.reason in _NOT_THE_ROW:
                raise
            raise mq_error(
                error.reason,
                f"option deadLetterQueue: {name!r} takes no row ({error.detail}), and one for "
                f"{kind.queue!r} was refused with {refusal}",
            ) from error
        left_ms = None if life.life_ms is None else max(life.life_ms, 0)
        with core.engine_lock:
            original = Original(descriptor, msg_id, ids[1], body, left_ms)
            self._report(Cause.EXCEPTION, original, refusal.reason)


def _sound(descriptor: Descriptor, context: Context) -> Descriptor:
    """Return a descriptor for the dead-letter queue: as given where a put would take it.

    Persistent unless the row says otherwise: it must not be lost with the next restart.
    """
    if descriptor.persistence == c.MQPER_PERSISTENCE_AS_Q_DEF:
        descriptor = descriptor._replace(persistence=c.MQPER_PERSISTENT)
    try:
        prepare(descriptor, 0, 0, context, c.MQPMO_NONE)
    except MQError:
        return Descriptor(persistence=c.MQPER_PERSISTENT)
    return descriptor
