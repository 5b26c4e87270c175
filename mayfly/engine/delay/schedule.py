"""The schedule of delayed messages: list, show, cancel, reschedule and release them.

Every change returns a receipt that says what happened to the message. The receipt is true when it
is given, and a repeated call returns the same one. Changes are audited in the transaction that
makes them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import ClassVar, Final

from mayfly.engine import queue_state
from mayfly.engine.authority import words
from mayfly.engine.authority.checks import UserAuthority
from mayfly.engine.core import Core
from mayfly.engine.delay.staging_queries import Scan, found_by_id, is_shown, scheduled
from mayfly.engine.queues import Found
from mayfly.engine.transaction import Transaction
from mayfly.engine.unit_of_work import UnitOfWork
from mayfly.lifetime.life import Event, State
from mayfly.lifetime.moments import is_expired
from mayfly.lifetime.times import ms_of_duration, ms_of_moment
from mayfly.lifetime.window import LATEST_DUE_MS, due_at
from mayfly.mqi import reasons as rc
from mayfly.mqi.delay_header import STAGING_QUEUE
from mayfly.mqi.descriptor import unpack_descriptor
from mayfly.mqi.errors import MQError, mq_error
from mayfly.store.keys import due_ms_of, id_hash
from mayfly.store.units import StoredMessage
from mayfly.verbs.checks import Duration, Identifier, Moment, stored_id
from mayfly.verbs.contracts.outcomes import TerminatedBy
from mayfly.verbs.schedule import (
    EVERYTHING,
    LAST_POSITION,
    AuditEntry,
    Receipt,
    Scheduled,
    ScheduleFilter,
    check_page,
    filter_of,
)

_OF_OUTCOME: dict[str, Receipt] = {
    State.RELEASED: Receipt.ALREADY_RELEASED,
    State.CANCELLED: Receipt.CANCELLED,
    State.GOT: Receipt.CANCELLED,
    State.EXPIRED: Receipt.EXPIRED,
    State.DEAD_LETTERED: Receipt.DEAD_LETTERED,
    State.DISCARDED: Receipt.DISCARDED,
    State.CLEARED: Receipt.CLEARED,
    State.LOST_AT_RESTART: Receipt.LOST_AT_RESTART,
}
_COLUMNS = ", ".join(AuditEntry._fields)
_AUDIT = f"INSERT INTO schedule_audit ({_COLUMNS}) VALUES ({', '.join('?' * 7)})"
#: Entries kept; older ones go as new ones come.
_KEPT = 100_000
_TRIM_AUDIT = (
    "DELETE FROM schedule_audit WHERE id <= (SELECT max(id) FROM schedule_audit) - ?",
    (_KEPT,),
)


def receipt_from_ledger(core: Core, msg_id: bytes) -> tuple[Receipt, str | None]:
    """Return how the delay of a message has ended, and its sender.

    The receipt is UNKNOWN and the sender None when the ledger no longer has the message. Call it
    without the engine lock.
    """
    found = core.store.ledger.outcome_of_delayed(msg_id)
    if found is None:
        return Receipt.UNKNOWN, None
    outcome, sender = found
    # An outcome of a later version is one of those that nothing is known of.
    return _OF_OUTCOME.get(outcome, Receipt.UNKNOWN), sender


class SessionSchedule:
    """The delayed messages of a queue manager, as one session may see and change them.

    In a transacted session changes belong to its unit of work; else each is durable on return. All
    methods raise MQRC_NOT_AUTHORIZED, and the errors of a closed session.
    """

    def __init__(
        self,
        core: Core,
        terminated_by: TerminatedBy,
        unit_of_work: Callable[[], UnitOfWork | None],
        authority: UserAuthority | None = None,
        position: int | None = None,
    ) -> None:
        """Act for a session; ``unit_of_work`` checks that it is open and returns its unit, if any.

        ``terminated_by`` names the user and program for the audit and the records of cancelled
        messages. With an ``authority``, messages of other users need BROWSE on the staging queue to
        be shown and GET to be changed; the user's messages need none. ``position`` is that of
        :meth:`at`.
        """
        self._authority = authority
        self._core = core
        self._ending = terminated_by
        self._unit_of_work = unit_of_work
        self._position = position

    def within(self, unit_of_work: UnitOfWork) -> SessionSchedule:
        """Return this schedule with changes that belong to a unit of work of its session."""

        def unit() -> UnitOfWork:
            # Checks that the session is open.
            self._unit_of_work()
            return unit_of_work

        return SessionSchedule(self._core, self._ending, unit, self._authority, self._position)

    def at(self, position: int) -> SessionSchedule:
        """Return this schedule limited to the message with one position (staging key).

        Changes raise MQRC_OBJECT_CHANGED when that message has been rescheduled since.
        """
        return SessionSchedule(
            self._core, self._ending, self._unit_of_work, self._authority, position
        )

    def audit(self, limit: int = 20) -> list[AuditEntry]:
        """Return the latest ``limit`` changes of the schedule, newest first.

        Raises MQRC_OPTIONS_ERROR for a limit below 1.
        """
        return [entry for _number, entry in self.audit_before(LAST_POSITION, limit)]

    def audit_before(self, number: int, limit: int) -> list[tuple[int, AuditEntry]]:
        """Return up to ``limit`` changes numbered below ``number``, newest first, with numbers.

        Raises MQRC_OPTIONS_ERROR for a limit below 1.
        """
        self._unit_of_work()
        self._check(words.BROWSE)
        check_page(limit, number)
        rows = self._core.store.ledger.audit(_COLUMNS, limit, number)
        return [(position, AuditEntry._make(values)) for position, *values in rows]

    def now_ms(self) -> int:
        """Return the time of the queue manager that decides what is due: ms since 1970, UTC."""
        return self._core.now_ms()

    def list(
        self,
        where: ScheduleFilter | str = EVERYTHING,
        *,
        limit: int = 20,
        after: int | None = None,
    ) -> list[Scheduled]:
        """Return delayed messages by delivery time, then put order.

        ``where`` is a filter, by default one that all messages match, or the name of a queue. At
        most ``limit`` are returned, none is an empty list. ``after`` is the position of the last
        result, for the next page; None begins at the first message. A message that a pipeline is
        releasing is included until it is on its target. Raises MQRC_NOT_AUTHORIZED, and
        MQRC_OPTIONS_ERROR for a limit below 1 and for values that are no 63-bit whole numbers.
        """
        self._unit_of_work()
        where = filter_of(where)
        self._check(words.BROWSE, where.sender)
        check_page(limit, after)
        scan = Scan(self._core, where, after, limit=limit, shows_releasing=True)
        found: list[Scheduled] = []
        while len(found) < limit and not scan.is_done:
            with self._core.engine_lock:
                found.extend(scheduled(row) for _queue, row, _persistence in scan.step())
        return found[:limit]

    def show(self, msg_id: Identifier) -> Scheduled | None:
        """Return the delayed message with this MsgId; None when no message with it is delayed.

        Of several messages it is the next one due. Raises MQRC_NOT_AUTHORIZED when the user may see
        none of them, MQRC_MD_ERROR for an invalid id.
        """
        self._unit_of_work()
        with self._core.engine_lock:
            found = found_by_id(self._core, stored_id(msg_id, "msg_id"))
            rows = [row for _queue, row, _persistence in found if is_shown(self._core, row.k)]
            if not rows:
                return None
            return scheduled(self._allowed(words.BROWSE, rows)[0])

    def count(self, queue: str | None = None) -> int:
        """Return how many messages are delayed, in all or for one target queue.

        It takes constant time, except for a shared queue: messages that wait here for it are
        counted one by one. Raises MQRC_UNKNOWN_OBJECT_NAME for an unknown queue.
        """
        self._unit_of_work()
        self._check(words.BROWSE)
        core, registry = self._core, self._core.registry
        with core.engine_lock:
            if queue is None:
                staging = registry.staging()
                return 0 if staging is None else staging.depth + core.staging.releasing.count
            target = registry.resolve(queue).queue
            if target.owner is core:
                return target.staged_for
        scan, count = Scan(core, ScheduleFilter(queue), shows_releasing=True), 0
        while not scan.is_done:
            with core.engine_lock:
                count += len(scan.step())
        return count

    def cancel(self, msg_id: Identifier, *, kept: KeptMessages | None = None) -> Receipt:
        """Cancel the delivery of a message: it is removed from the staging queue.

        In a transacted session the change belongs to its unit of work, else it is durable on
        return. Returns CANCELLED, or the reason why nothing was changed: LOCKED, ALREADY_RELEASED,
        EXPIRED and others, UNKNOWN for an unknown MsgId. Like :meth:`reschedule` and
        :meth:`release` it changes all delayed messages with this MsgId that the session may change,
        or none: if one is locked or cannot have the new time, none changes.
        ``Receipt.message_count`` is their number. ``kept`` receives the messages, for an undo.
        """
        return self._change_one(msg_id, Cancellation(self._core, self._ending, kept))

    def reschedule(
        self,
        msg_id: Identifier,
        *,
        delay_ms: Duration | None = None,
        deliver_at_ms: Moment | None = None,
    ) -> Receipt:
        """Give a message another delivery time: ``delay_ms`` from now, or ``deliver_at_ms`` itself.

        ``deliver_at_ms`` counts from 1970, UTC; a time in the past releases it at once. They may be
        a timedelta and a datetime. With TTLFROM(RELEASE) the expiry moves by the same time. Returns
        RESCHEDULED, or the reason why nothing was changed, as :meth:`cancel` does. Raises
        MQRC_EXPIRY_ERROR for a time after the expiry (D7). Raises MQRC_OPTIONS_ERROR for both or
        neither argument, and for a value that is no whole number, negative or beyond the year 2109.
        Raises ValueError for a datetime without a time zone.
        """
        change = Rescheduling(
            self._core,
            delay_ms=ms_of_duration(delay_ms),
            deliver_at_ms=ms_of_moment(deliver_at_ms, "deliver_at_ms"),
        )
        return self._change_one(msg_id, change)

    def release(self, msg_id: Identifier) -> Receipt:
        """Set the delivery time of a message to now, so that it is released to its target.

        The message may reach the target after the return. Returns RELEASED, or as :meth:`cancel`
        when nothing was changed.
        """
        return self._change_one(msg_id, Releasing(self._core, self._ending))

    def cancel_all(
        self, where: ScheduleFilter, *, kept: KeptMessages | None = None
    ) -> Iterator[int]:
        """Cancel all messages that match a filter; yield the running total after each batch.

        Nothing happens before the first total is asked for. In a transacted session the changes
        belong to its unit of work, else each batch is durable when its total is yielded. Messages
        put meanwhile may be left out. Yields 0 when no message matches. ``kept`` receives the
        messages, for an undo.
        """
        return self._change_all(where, Cancellation(self._core, self._ending, kept))

    def reschedule_all(
        self,
        where: ScheduleFilter,
        *,
        delay_ms: Duration | None = None,
        deliver_at_ms: Moment | None = None,
        by_ms: Duration | None = None,
    ) -> Iterator[int]:
        """Give all messages that match a filter another delivery time.

        It works as :meth:`cancel_all`. ``delay_ms`` counts from now, ``deliver_at_ms`` from 1970,
        UTC; ``by_ms`` moves each by the same interval. Yields the running total after each batch, 0
        when no message matches. Before any message is changed, raises MQRC_EXPIRY_ERROR for a time
        after an expiry (D7), and MQRC_OPTIONS_ERROR unless exactly one argument is passed, and in
        range.
        """
        change = Rescheduling(
            self._core,
            delay_ms=ms_of_duration(delay_ms),
            deliver_at_ms=ms_of_moment(deliver_at_ms, "deliver_at_ms"),
            by_ms=ms_of_duration(by_ms),
        )
        return self._change_all(where, change)

    def release_all(self, where: ScheduleFilter) -> Iterator[int]:
        """Release all messages that match a filter now; yield the running total after each batch.

        It works as :meth:`cancel_all`. Yields 0 when no message matches.
        """
        return self._change_all(where, Releasing(self._core, self._ending))

    def _change_one(self, msg_id: Identifier, change: ScheduleChange) -> Receipt:
        """Apply a change to all delayed messages of a MsgId, audit it, and return the receipt.

        Messages that are due are released first. When none is left, the receipt comes from the
        ledger. In a transacted session the change belongs to its unit of work, else it is durable
        on return.
        """
        core, unit_of_work = self._core, self._unit_of_work()
        wanted, transaction = stored_id(msg_id, "msg_id"), Transaction()
        left_over: set[int] = set()
        while True:
            with core.engine_lock:
                found = self._settled(wanted)
                keys = [row.k for _queue, row, _persistence in found]
                due = {key for key in keys if self._is_on_its_way(key)} - left_over
                if not due:
                    receipt = self._change_found(found, change, wanted, transaction, unit_of_work)
            if not due:
                break
            # A caller may have a receipt that they are released: release them first, if possible.
            core.do_due()
            left_over |= due
        if receipt is None:
            receipt, sender = receipt_from_ledger(core, wanted)
            if sender is not None:
                # A receipt reveals what happened to another user's message.
                self._check(words.GET, sender)
        if not transaction.departures and receipt != change.receipt:
            entry = self._entry(change, change.detail, receipt, 0, wanted)
            note_audit(entry, transaction, unit_of_work)
        core.committer.run(transaction)
        return receipt

    def _change_found(
        self,
        found: Sequence[Found],
        change: ScheduleChange,
        msg_id: bytes,
        transaction: Transaction,
        unit_of_work: UnitOfWork | None,
    ) -> Receipt | None:
        """Apply a change to those messages of a MsgId that can be changed, and return the receipt.

        The changes are added to ``unit_of_work``, or to ``transaction`` if that is None. Returns
        None when ``found`` is empty, and LOCKED, with nothing changed, when one is locked. Raises
        MQRC_OBJECT_CHANGED when none has the wanted position, MQRC_EXPIRY_ERROR when the new time
        is after an expiry.
        """
        if not found:
            return None
        may_change = {row.k for row in self._allowed(words.GET, [row for _q, row, _s in found])}
        if self._position is not None:
            may_change &= {self._position}
        meant = [one for one in found if one[1].k in may_change]
        if not meant:
            raise mq_error(
                rc.MQRC_OBJECT_CHANGED,
                f"the position of the message is {found[0][1].k}, and no more {self._position}",
            )
        states = [self._state(one, unit_of_work) for one in meant]
        if Receipt.LOCKED in states:
            return Receipt.LOCKED
        free = [one for one, state in zip(meant, states, strict=True) if state is None]
        if not free:
            return states[0]
        for _queue, row, _persistence in free:
            change.check(row)
        for one in free:
            change.apply(one, transaction, unit_of_work)
        entry = self._entry(change, change.detail, change.receipt, len(free), msg_id)
        note_audit(entry, transaction, unit_of_work)
        return change.receipt.of(len(free))

    def _check(self, wanted: int, sender: str | None = None) -> None:
        """Raise MQRC_NOT_AUTHORIZED if the user is not the sender and lacks ``wanted``.

        ``wanted`` is an authority on the staging queue; ``sender`` None means messages of any user.
        """
        if self._authority is not None and sender != self._authority.user:
            self._authority.check_queue(STAGING_QUEUE, wanted)

    def _allowed(self, wanted: int, rows: Sequence[StoredMessage]) -> Sequence[StoredMessage]:
        """Return those messages that the user may see or change.

        ``wanted`` is the authority on the staging queue for messages of other users. Raises
        MQRC_NOT_AUTHORIZED when no message is left.
        """
        if self._authority is None:
            return rows
        own = self._authority.user
        senders = [unpack_descriptor(row.descriptor).user_identifier for row in rows]
        if any(sender != own for sender in senders):
            try:
                self._check(wanted)
            except MQError:
                if own not in senders:
                    raise
                return [row for row, sender in zip(rows, senders, strict=True) if sender == own]
        return rows

    def _is_on_its_way(self, key: int) -> bool:
        """Return True if a message is visible and due, so that its release is imminent."""
        return key not in self._core.hidden and due_ms_of(key) <= self._core.now_ms()

    def _change_all(self, where: ScheduleFilter, change: ScheduleChange) -> Iterator[int]:
        """Check all matching messages, then change them in batches; yield the running total.

        Raises the error of the first message that cannot be changed, before any is changed.
        """
        core, unit_of_work = self._core, self._unit_of_work()
        self._check(words.GET, where.sender)
        check = Scan(core, where)
        while not check.is_done:
            with core.engine_lock:
                for _queue, row, _persistence in check.step():
                    if not is_expired(row.expire_at_ms, core.now_ms()):
                        change.check(row)
        scan, total = Scan(core, where), 0
        while not scan.is_done:
            # Its session may have ended since the last batch.
            self._unit_of_work()
            transaction, count = Transaction(), 0
            with core.engine_lock:
                try:
                    for found in scan.step():
                        if change.covers(found[1]) and self._is_possible(change, found):
                            change.apply(found, transaction, unit_of_work)
                            count += 1
                finally:
                    # A unit of work that is full keeps what is in it, and so its audit, too.
                    if count:
                        detail = f"{change.detail} {_filter_text(where)}".strip()
                        entry = self._entry(change, detail, change.receipt, count)
                        note_audit(entry, transaction, unit_of_work)
            if count:
                core.committer.run(transaction)
                total += count
                yield total
        if not total:
            yield 0

    def _is_possible(self, change: ScheduleChange, found: Found) -> bool:
        """Return True if a message has not expired and ``change.check`` accepts it."""
        if is_expired(found[1].expire_at_ms, self._core.now_ms()):
            return False
        try:
            change.check(found[1])
        except MQError:
            return False
        return True

    def _settled(self, msg_id: bytes) -> Sequence[Found]:
        """Return the delayed messages with a MsgId, after waiting for transactions with them."""
        found: Sequence[Found] = ()

        def is_under_way() -> bool:
            nonlocal found
            found = found_by_id(self._core, msg_id)
            hidden = self._core.hidden
            return any(isinstance(hidden.get(row.k), Transaction) for _q, row, _s in found)

        self._core.engine_lock.wait_while(is_under_way)
        return found

    def _state(self, found: Found, unit_of_work: UnitOfWork | None) -> Receipt | None:
        """Return the receipt of a message that cannot be changed now, None when it can be changed.

        The receipt says that a pipeline releases it, it is locked, cancelled, or expired.
        """
        key = found[1].k
        owner = self._core.hidden.get(key)
        if owner is self._core.staging.releasing:
            return Receipt.ALREADY_RELEASED
        if owner is not None:
            is_own = unit_of_work is not None and unit_of_work.has_taken(key)
            return Receipt.CANCELLED if is_own else Receipt.LOCKED
        is_over = is_expired(found[1].expire_at_ms, self._core.now_ms())
        return Receipt.EXPIRED if is_over else None

    def _entry(
        self, change: ScheduleChange, detail: str, receipt: Receipt, count: int, msg_id: bytes = b""
    ) -> AuditEntry:
        """Return a new audit entry, with the present time and the session's user.

        ``change`` gives the action and ``detail`` its text, such as the new time. ``receipt`` is
        the outcome and ``count`` the number of messages. An entry for many messages has no
        ``msg_id``.
        """
        now_ms, user = self._core.now_ms(), self._ending.ended_by or ""
        return AuditEntry(now_ms, user, change.action, msg_id, detail, receipt.value, count)


def note_audit(
    entry: AuditEntry, transaction: Transaction, unit_of_work: UnitOfWork | None
) -> None:
    """Add an audit entry to a unit of work, or to a transaction if that is None."""
    if unit_of_work is not None:
        unit_of_work.note(_AUDIT, entry)
    else:
        transaction.unit.statements.extend(((_AUDIT, entry), _TRIM_AUDIT))


def _filter_text(where: ScheduleFilter) -> str:
    """Return a filter as text for the audit, for example ``queue=A sender=bob``."""
    given = {name: value for name, value in where._asdict().items() if value not in (None, ())}
    return " ".join(f"{name}={value}" for name, value in given.items()) or "everything"


class ScheduleChange(ABC):
    """One kind of change of delayed messages; its methods are called under the engine lock."""

    #: The name of the change in the audit.
    action: ClassVar[str]
    #: The receipt after a successful change.
    receipt: ClassVar[Receipt]

    def __init__(self, core: Core) -> None:
        """Begin without text for the audit; ``core`` is the queue manager of the messages."""
        self._core = core
        #: The details of the change for the audit.
        self.detail = ""

    def covers(self, row: StoredMessage) -> bool:
        """Return True if a message still has to be changed; by default True."""
        return True

    def check(self, row: StoredMessage) -> None:  # noqa: B027 - most changes are never too late
        """Raise MQError when a message cannot be changed; by default none is raised."""

    @abstractmethod
    def apply(
        self, found: Found, transaction: Transaction, unit_of_work: UnitOfWork | None
    ) -> None:
        """Change a visible message in the unit of work, or in the transaction if that is None."""


class KeptMessages:
    """Messages that a cancel has removed, kept so that it can be undone; for one thread.

    At more than 1,000 messages or 16 MiB of data none is kept.
    """

    MAX_MESSAGES: Final = 1_000
    MAX_BYTES: Final = 2**24

    def __init__(self) -> None:
        """Begin with no message."""
        self.found: list[Found] = []
        self._left_bytes = self.MAX_BYTES
        self._is_over = False

    def add(self, found: Found) -> None:
        """Keep a message, or give up all when they are too many."""
        self._left_bytes -= len(found[1].body)
        self._is_over |= len(self.found) >= self.MAX_MESSAGES or self._left_bytes < 0
        if self._is_over:
            self.found.clear()
        else:
            self.found.append(found)


class Cancellation(ScheduleChange):
    """Removes messages from the staging queue; the ledger records them as cancelled."""

    action: ClassVar = "cancel"
    receipt: ClassVar = Receipt.CANCELLED

    def __init__(
        self, core: Core, terminated_by: TerminatedBy, kept: KeptMessages | None = None
    ) -> None:
        """Keep the user and program to be recorded as those who ended the messages.

        ``kept`` receives each message that is removed.
        """
        super().__init__(core)
        self._ending, self._kept = terminated_by, kept

    def apply(
        self, found: Found, transaction: Transaction, unit_of_work: UnitOfWork | None
    ) -> None:
        """Remove the message, as a get from the staging queue does (D3).

        The removal belongs to the unit of work, or to the transaction if that is None.
        """
        now_ms = self._core.now_ms()
        if unit_of_work is None:
            queue_state.end(
                self._core, transaction, found, Event.CANCEL, now_ms, terminated_by=self._ending
            )
        else:
            unit_of_work.check_capacity()
            unit_of_work.take(*found, now_ms)
        if self._kept is not None:
            self._kept.add(found)


class Rescheduling(ScheduleChange):
    """Gives messages another delivery time: one for all, or each moved by the same interval."""

    action: ClassVar = "reschedule"
    receipt: ClassVar = Receipt.RESCHEDULED

    def __init__(
        self,
        core: Core,
        *,
        delay_ms: int | None = None,
        deliver_at_ms: int | None = None,
        by_ms: int | None = None,
    ) -> None:
        """Set the new time from exactly one argument, all in ms.

        ``delay_ms`` counts from now, ``deliver_at_ms`` from 1970, UTC; ``by_ms`` is added to each
        delivery time. Raises MQRC_OPTIONS_ERROR for none or several arguments, and for one out of
        range.
        """
        if sum(value is not None for value in (delay_ms, deliver_at_ms, by_ms)) != 1:
            raise mq_error(
                rc.MQRC_OPTIONS_ERROR, "give one of delay_ms, deliver_at_ms and, for many, by_ms"
            )
        super().__init__(core)
        #: The user by whom messages are released before their time.
        self._released_by: str | None = None
        self._by_ms = by_ms
        self._due_ms: int | None = None
        #: The first key this change has drawn in each millisecond that its scan is still to reach.
        self._first_own_keys: dict[int, int] = {}
        if by_ms is not None:
            if type(by_ms) is not int or abs(by_ms) > LATEST_DUE_MS:
                raise mq_error(rc.MQRC_OPTIONS_ERROR, f"by_ms {by_ms!r} is no number of ms")
            self.detail = f"by {by_ms} ms"
        elif delay_ms is not None:
            self._due_ms = due_at(core.now_ms(), delay_ms)
            self.detail = f"to {self._due_ms}"
        else:
            self._due_ms = _moment(deliver_at_ms)
            self.detail = f"to {self._due_ms}"

    def covers(self, row: StoredMessage) -> bool:
        """Return True if a message still has to be moved.

        False for a message that this change has moved already, and for a due message that is to be
        moved to an earlier time.
        """
        due_ms = due_ms_of(row.k)
        if self._by_ms is not None and self._by_ms < 0 and due_ms <= self._core.now_ms():
            # There is no earlier.
            return False
        # They were drawn in this order; the scan does not meet again those that it has passed.
        while self._first_own_keys and (first_ms := next(iter(self._first_own_keys))) < due_ms:
            del self._first_own_keys[first_ms]
        first_own_key = self._first_own_keys.get(due_ms)
        return first_own_key is None or row.k < first_own_key

    def check(self, row: StoredMessage) -> None:
        """Raise MQRC_EXPIRY_ERROR for a time after the expiry (D7), MQRC_OPTIONS_ERROR beyond 2109.

        A delivery exactly at the expiry is allowed.
        """
        due_ms = self._new_due_ms(row)
        if due_ms > LATEST_DUE_MS:
            raise mq_error(
                rc.MQRC_OPTIONS_ERROR, f"by_ms {self._by_ms} leads beyond {LATEST_DUE_MS}"
            )
        if row.expire_at_ms is not None and not row.ttl_from_release and due_ms > row.expire_at_ms:
            raise mq_error(
                rc.MQRC_EXPIRY_ERROR,
                f"delivery at {due_ms} comes after the expiry of {row.msg_id.hex()} "
                f"at {row.expire_at_ms}",
            )

    def apply(
        self, found: Found, transaction: Transaction, unit_of_work: UnitOfWork | None
    ) -> None:
        """Give the message a new key with the new delivery time, behind all others of that time.

        The change belongs to the unit of work, or to the transaction if that is None.
        """
        row = found[1]
        if unit_of_work is not None:
            unit_of_work.check_capacity()
        new = self._at(row, self._new_due_ms(row))
        if new.k > row.k:
            self._first_own_keys.setdefault(due_ms_of(new.k), new.k)
        if unit_of_work is not None:
            unit_of_work.reschedule(found, new)
        else:
            queue_state.reschedule(transaction, found, new)

    def _new_due_ms(self, row: StoredMessage) -> int:
        """Return the new delivery time of a message in ms since 1970, at least the present time."""
        due_ms = due_ms_of(row.k) + self._by_ms if self._by_ms is not None else self._due_ms
        assert due_ms is not None
        return max(due_ms, self._core.now_ms())

    def _at(self, row: StoredMessage, due_ms: int) -> StoredMessage:
        """Return the row of a message with another delivery time, under a new key.

        With TTLFROM(RELEASE) the expiry time moves by the same interval.
        """
        expire_at_ms = row.expire_at_ms
        if row.ttl_from_release and expire_at_ms is not None:
            assert row.deliver_at_ms is not None
            expire_at_ms += due_ms - row.deliver_at_ms
        return row._replace(
            k=self._core.staging.order.next_key(due_ms),
            deliver_at_ms=due_ms,
            expire_at_ms=expire_at_ms,
            # Its id contains its first key; from now on the index must find it.
            msg_hash=id_hash(row.msg_id),
            released_by=self._released_by,
        )


class Releasing(Rescheduling):
    """Releases messages to their targets now."""

    action: ClassVar = "release"
    receipt: ClassVar = Receipt.RELEASED

    def __init__(self, core: Core, terminated_by: TerminatedBy) -> None:
        """Set the new time to now; the user is recorded in the released messages."""
        super().__init__(core, by_ms=-LATEST_DUE_MS)
        self.detail = ""
        self._released_by = terminated_by.ended_by

    def check(self, row: StoredMessage) -> None:
        """Accept every message: now is never after the expiry."""


def _moment(deliver_at_ms: int | None) -> int:
    """Return ``deliver_at_ms`` after a check of its range, 0 .. LATEST_DUE_MS.

    Raises MQRC_OPTIONS_ERROR for any other value.
    """
    if type(deliver_at_ms) is not int or not 0 <= deliver_at_ms <= LATEST_DUE_MS:
        raise mq_error(
            rc.MQRC_OPTIONS_ERROR,
            f"deliver_at_ms {deliver_at_ms!r} is not within 0 .. {LATEST_DUE_MS}",
        )
    return deliver_at_ms
