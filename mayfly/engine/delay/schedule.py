"""The schedule of delayed messages: list, show, cancel, reschedule and release them, with receipts.

Every change answers what became of the message: a receipt is true at the moment it is given, and
asking again gives the same one. Changes are audited in the transaction that makes them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from mayfly.engine.authority import words
from mayfly.engine.authority.checks import UserAuthority
from mayfly.engine.core import Core
from mayfly.engine.delay.receipts import AUDIT, TRIM_AUDIT, read_audit, receipt_from_ledger
from mayfly.engine.delay.schedule_change import Cancellation, Change, Releasing, Rescheduling
from mayfly.engine.delay.schedule_query import Scan, found_by_id, is_shown, scheduled
from mayfly.engine.queues import Found
from mayfly.engine.transaction import Transaction
from mayfly.engine.unit_of_work import UnitOfWork
from mayfly.lifetime.moments import is_expired
from mayfly.mqi import reasons as rc
from mayfly.mqi.delay_header import STAGING_QUEUE
from mayfly.mqi.descriptor import unpack_descriptor
from mayfly.mqi.errors import MQError, mq_error
from mayfly.store.keys import due_ms_of
from mayfly.store.units import StoredMessage
from mayfly.verbs.checks import Identifier, stored_id
from mayfly.verbs.contracts.outcomes import Ending
from mayfly.verbs.schedule import (
    EVERYTHING,
    LAST_POSITION,
    AuditEntry,
    Receipt,
    Scheduled,
    ScheduleFilter,
    check_page,
)

#: A page may begin behind any key but the last that there is.

__all__ = ["AuditEntry", "Receipt", "Schedule", "ScheduleFilter", "Scheduled"]


class Schedule:
    """The delayed messages of a queue manager, as one session may see and change them.

    In a transacted session changes are part of its unit of work, beside its puts and gets; else
    each is durable when it returns.
    """

    def __init__(
        self,
        core: Core,
        ending: Ending,
        unit_of_work: Callable[[], UnitOfWork | None],
        authority: UserAuthority | None = None,
        position: int | None = None,
    ) -> None:
        """Act for a session: ``unit_of_work`` checks that it is open and gives its unit, if any.

        ``ending`` names its user and program: to the audit, and to the lives that it ends.
        With an ``authority``, the messages of others are shown to who may browse the staging queue
        and changed by who may get from it; own ones need nothing. ``position`` is as in :meth:`at`.
        """
        self._authority = authority
        self._core = core
        self._ending = ending
        self._unit_of_work = unit_of_work
        self._position = position

    def within(self, unit_of_work: UnitOfWork) -> Schedule:
        """Return the same with changes that are part of a unit of work of its session."""

        def unit() -> UnitOfWork:
            # Checks that the session is open.
            self._unit_of_work()
            return unit_of_work

        return Schedule(self._core, self._ending, unit, self._authority, self._position)

    def at(self, position: int) -> Schedule:
        """Return the same, which changes the one message that has a position of the schedule.

        It raises MQRC_OBJECT_CHANGED for a message that somebody has rescheduled meanwhile.
        """
        return Schedule(self._core, self._ending, self._unit_of_work, self._authority, position)

    def audit(self, limit: int = 20) -> list[AuditEntry]:
        """Return the latest changes of the schedule, newest first; limit as for :meth:`list`."""
        return [entry for _number, entry in self.audit_before(LAST_POSITION, limit)]

    def audit_before(self, number: int, limit: int) -> list[tuple[int, AuditEntry]]:
        """Return changes before the one with a number, newest first, each with its number."""
        self._unit_of_work()
        self._check(words.BROWSE)
        check_page(limit, number)
        return read_audit(self._core, limit, number)

    def now_ms(self) -> int:
        """Return the time of the queue manager, by which messages are due: ms since 1970, UTC."""
        return self._core.now_ms()

    def list(
        self, where: ScheduleFilter = EVERYTHING, *, limit: int = 20, after: int | None = None
    ) -> list[Scheduled]:
        """Return delayed messages by delivery time, then put order, those after a position.

        Those that a pipeline is about to release are among them until they are at their target.
        The position of the last one leads to the next page. Raises MQRC_OPTIONS_ERROR for a limit
        below 1, and for what is no whole number of 63 bits.
        """
        self._unit_of_work()
        self._check(words.BROWSE, where.sender)
        check_page(limit, after)
        scan = Scan(self._core, where, after, limit=limit, shows_releasing=True)
        found: list[Scheduled] = []
        while len(found) < limit and not scan.is_done:
            with self._core.engine_lock:
                found.extend(scheduled(row) for _queue, row, _side in scan.step())
        return found[:limit]

    def show(self, msg_id: Identifier) -> Scheduled | None:
        """Return the delayed message that was sent under a MsgId, None when none waits.

        Of several it is the next one due.
        """
        self._unit_of_work()
        with self._core.engine_lock:
            found = found_by_id(self._core, stored_id(msg_id, "msg_id"))
            rows = [row for _queue, row, _side in found if is_shown(self._core, row.k)]
            if not rows:
                return None
            return scheduled(self._allowed(words.BROWSE, rows)[0])

    def count(self, queue: str | None = None) -> int:
        """Return how many messages are delayed, or how many of them wait for one queue; O(1).

        Those for a shared queue, which are counted one by one, are the ones that wait here.
        """
        self._unit_of_work()
        self._check(words.BROWSE)
        core, registry = self._core, self._core.registry
        with core.engine_lock:
            if queue is None:
                staging = registry.staging()
                return 0 if staging is None else staging.depth + core.staging.releasing.count
            target = registry.resolve(queue).queue
            if target.home is core:
                return target.staged_for
        scan, count = Scan(core, ScheduleFilter(queue), shows_releasing=True), 0
        while not scan.is_done:
            with core.engine_lock:
                count += len(scan.step())
        return count

    def cancel(self, msg_id: Identifier) -> Receipt:
        """Take a message off the schedule: it is never delivered, its life ends as cancelled.

        This, :meth:`reschedule` and :meth:`release` change all messages that wait under the MsgId
        and that the session may change, or none of them: one that is locked, or cannot have the
        new time, holds up the others. ``Receipt.message_count`` says how many they were.
        """
        return self._change_one(msg_id, Cancellation(self._core, self._ending))

    def reschedule(
        self, msg_id: Identifier, *, delay_ms: int | None = None, deliver_at_ms: int | None = None
    ) -> Receipt:
        """Give a message another delivery time, by a delay from now or by the moment itself.

        A moment that has passed releases it at once. With TTLFROM(RELEASE) its expiry moves along.
        Raises MQRC_EXPIRY_ERROR when it would come after the expiry (D7) and MQRC_OPTIONS_ERROR for
        both or neither, or a value that is no whole number, negative or beyond the year 2109.
        """
        change = Rescheduling(self._core, delay_ms=delay_ms, deliver_at_ms=deliver_at_ms)
        return self._change_one(msg_id, change)

    def release(self, msg_id: Identifier) -> Receipt:
        """Let a message go to its target now."""
        return self._change_one(msg_id, Releasing(self._core, self._ending))

    def cancel_all(self, where: ScheduleFilter) -> Iterator[int]:
        """Cancel everything a filter finds; yields the number done so far, batch by batch.

        Each batch is durable when it is counted; a message put meanwhile may be left out.
        """
        return self._change_all(where, Cancellation(self._core, self._ending))

    def reschedule_all(
        self,
        where: ScheduleFilter,
        *,
        delay_ms: int | None = None,
        deliver_at_ms: int | None = None,
        by_ms: int | None = None,
    ) -> Iterator[int]:
        """Give everything a filter finds another delivery time; ``by_ms`` moves each by as much.

        Yields as :meth:`cancel_all`. Raises as :meth:`reschedule`, before anything is changed.
        """
        change = Rescheduling(
            self._core, delay_ms=delay_ms, deliver_at_ms=deliver_at_ms, by_ms=by_ms
        )
        return self._change_all(where, change)

    def release_all(self, where: ScheduleFilter) -> Iterator[int]:
        """Let everything a filter finds go now; yields as :meth:`cancel_all`."""
        return self._change_all(where, Releasing(self._core, self._ending))

    def _change_one(self, msg_id: Identifier, change: Change) -> Receipt:
        core, unit_of_work = self._core, self._unit_of_work()
        wanted, transaction = stored_id(msg_id, "msg_id"), Transaction()
        left_over: set[int] = set()
        while True:
            with core.engine_lock:
                found = self._settled(wanted)
                keys = [row.k for _queue, row, _side in found]
                due = {key for key in keys if self._is_on_its_way(key)} - left_over
                if not due:
                    receipt = self._change_found(found, change, (wanted, transaction, unit_of_work))
            if not due:
                break
            # Somebody may have been told that they are released: they go first, if they can.
            core.do_due()
            left_over |= due
        if receipt is None:
            receipt, sender = receipt_from_ledger(core, wanted)
            if sender is not None:
                # A receipt of somebody else's message tells what became of it.
                self._check(words.GET, sender)
        if not transaction.departures and receipt != change.receipt:
            self._note(change, (wanted, change.detail, receipt, 0), transaction, unit_of_work)
        core.committer.run(transaction)
        return receipt

    def _change_found(
        self,
        found: Sequence[Found],
        change: Change,
        effect: tuple[bytes, Transaction, UnitOfWork | None],
    ) -> Receipt | None:
        """Change all messages of an id that can be; None when none waits any more."""
        wanted, transaction, unit_of_work = effect
        if not found:
            return None
        may_change = {row.k for row in self._allowed(words.GET, [row for _q, row, _s in found])}
        if self._position is not None:
            may_change &= {self._position}
        meant = [one for one in found if one[1].k in may_change]
        if not meant:
            said = f"the position of the message is {found[0][1].k}, and no more {self._position}"
            raise mq_error(rc.MQRC_OBJECT_CHANGED, said)
        states = [self._state(one, unit_of_work) for one in meant]
        if Receipt.LOCKED in states:
            return Receipt.LOCKED
        free = [one for one, state in zip(meant, states, strict=True) if state is None]
        if not free:
            return states[0]
        for _queue, row, _side in free:
            change.check(row)
        for one in free:
            change.apply(one, transaction, unit_of_work)
        told = wanted, change.detail, change.receipt, len(free)
        self._note(change, told, transaction, unit_of_work)
        return change.receipt.of(len(free))

    def _check(self, wanted: int, sender: str | None = None) -> None:
        """Check for authority on the staging queue, unless it is about the user's own messages."""
        if self._authority is not None and sender != self._authority.user:
            self._authority.check_queue(STAGING_QUEUE, wanted)

    def _allowed(self, wanted: int, rows: Sequence[StoredMessage]) -> Sequence[StoredMessage]:
        """Return the messages that the user has authority for; raises when that is none."""
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
        """Return True if a message is visible and due: its release is under way."""
        return key not in self._core.hidden and due_ms_of(key) <= self._core.now_ms()

    def _change_all(self, where: ScheduleFilter, change: Change) -> Iterator[int]:
        core, unit_of_work = self._core, self._unit_of_work()
        self._check(words.GET, where.sender)
        check = Scan(core, where)
        while not check.is_done:
            with core.engine_lock:
                for _queue, row, _side in check.step():
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
                        detail = f"{change.detail} {_spelled(where)}".strip()
                        self._note(
                            change, (b"", detail, change.receipt, count), transaction, unit_of_work
                        )
            if count:
                core.committer.run(transaction)
                total += count
                yield total
        if not total:
            yield 0

    def _is_possible(self, change: Change, found: Found) -> bool:
        """Return True if a message that came after the check can be changed as well."""
        if is_expired(found[1].expire_at_ms, self._core.now_ms()):
            return False
        try:
            change.check(found[1])
        except MQError:
            return False
        return True

    def _settled(self, msg_id: bytes) -> Sequence[Found]:
        """Return the delayed messages of an id, once their transactions under way are on disk."""
        found: Sequence[Found] = ()

        def is_under_way() -> bool:
            nonlocal found
            found = found_by_id(self._core, msg_id)
            hidden = self._core.hidden
            return any(isinstance(hidden.get(row.k), Transaction) for _q, row, _s in found)

        self._core.engine_lock.wait_while(is_under_way)
        return found

    def _state(self, found: Found, unit_of_work: UnitOfWork | None) -> Receipt | None:
        """Return the receipt of a message that cannot be changed now, None when it can."""
        key = found[1].k
        owner = self._core.hidden.get(key)
        if owner is self._core.staging.releasing:
            return Receipt.ALREADY_RELEASED
        if owner is not None:
            is_own = unit_of_work is not None and unit_of_work.has_taken(key)
            return Receipt.CANCELLED if is_own else Receipt.LOCKED
        is_over = is_expired(found[1].expire_at_ms, self._core.now_ms())
        return Receipt.EXPIRED if is_over else None

    def _note(
        self,
        change: Change,
        told: tuple[bytes, str, Receipt, int],
        transaction: Transaction,
        unit_of_work: UnitOfWork | None,
    ) -> None:
        """Add the audit of a change to what makes it durable."""
        msg_id, detail, receipt, count = told
        now_ms = self._core.now_ms()
        user = self._ending.ended_by or ""
        entry = AuditEntry(now_ms, user, change.action, msg_id, detail, receipt.value, count)
        if unit_of_work is not None:
            unit_of_work.note(AUDIT, entry)
        else:
            transaction.unit.statements.extend(((AUDIT, entry), TRIM_AUDIT))


def _spelled(where: ScheduleFilter) -> str:
    given = {name: value for name, value in where._asdict().items() if value not in (None, ())}
    return " ".join(f"{name}={value}" for name, value in given.items()) or "everything"
