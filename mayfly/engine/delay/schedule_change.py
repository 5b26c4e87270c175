"""Changes of the schedule: a delayed message is taken off, or gets a new time."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

from mayfly.engine import holding
from mayfly.engine.core import Core
from mayfly.engine.queues import Found
from mayfly.engine.transaction import Transaction
from mayfly.engine.unit_of_work import UnitOfWork
from mayfly.lifetime.life import Event
from mayfly.lifetime.window import LATEST_DUE_MS, due_at
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import mq_error
from mayfly.store.keys import due_ms_of, id_hash
from mayfly.store.units import StoredMessage
from mayfly.verbs.contracts.outcomes import Ending
from mayfly.verbs.schedule import Receipt


class Change(ABC):
    """One kind of change; its methods are called under the lock."""

    #: The name of the change in the audit.
    action: ClassVar[str]
    #: The receipt after a successful change.
    receipt: ClassVar[Receipt]

    def __init__(self, core: Core, detail: str = "") -> None:
        """Take the core; ``detail`` stands in the audit."""
        self._core, self.detail = core, detail

    def covers(self, row: StoredMessage) -> bool:
        """Return True if a message is to be changed, and this change has not changed it yet."""
        return True

    @abstractmethod
    def check(self, row: StoredMessage) -> None:
        """Raise the reason why a message cannot be changed."""

    @abstractmethod
    def apply(
        self, found: Found, transaction: Transaction, unit_of_work: UnitOfWork | None
    ) -> None:
        """Change a visible message, by the unit of work, or by the transaction without one."""


class Cancellation(Change):
    """Messages are taken off the schedule; their lives end as cancelled."""

    action: ClassVar = "cancel"
    receipt: ClassVar = Receipt.CANCELLED

    def __init__(self, core: Core, ending: Ending) -> None:
        """Prepare; ``ending`` says who cancels."""
        super().__init__(core)
        self._ending = ending

    def check(self, row: StoredMessage) -> None:
        """Nothing that waits is too late to be cancelled."""

    def apply(
        self, found: Found, transaction: Transaction, unit_of_work: UnitOfWork | None
    ) -> None:
        """Take the message, as a get from the staging queue does (D3)."""
        queue, row, persistence = found
        if unit_of_work is not None:
            unit_of_work.check_room()
            unit_of_work.take(queue, row, persistence, self._core.now_ms())
            return
        now_ms = self._core.now_ms()
        holding.end(self._core, transaction, found, Event.CANCEL, now_ms, ending=self._ending)


class Rescheduling(Change):
    """Messages get another delivery time: the same for all, or moved by as much, or now."""

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
        """Prepare; raises MQRC_OPTIONS_ERROR unless exactly one is given, a number in its range."""
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
        """Leave out what this change has moved, and what is due already where it moves back."""
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
        """Raise MQRC_EXPIRY_ERROR after its expiry (D7), MQRC_OPTIONS_ERROR beyond 2109."""
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
        """Give the message the key of its new time, behind all others of that time."""
        queue, row, persistence = found
        if unit_of_work is not None:
            unit_of_work.check_room()
        new = self._at(row, self._new_due_ms(row))
        if new.k > row.k:
            self._first_own_keys.setdefault(due_ms_of(new.k), new.k)
        if unit_of_work is not None:
            unit_of_work.reschedule((queue, row, persistence), new)
            return
        holding.put_off(transaction, found, new)

    def _new_due_ms(self, row: StoredMessage) -> int:
        due_ms = due_ms_of(row.k) + self._by_ms if self._by_ms is not None else self._due_ms
        assert due_ms is not None
        return max(due_ms, self._core.now_ms())

    def _at(self, row: StoredMessage, due_ms: int) -> StoredMessage:
        expire_at_ms = row.expire_at_ms
        if row.ttl_from_release and expire_at_ms is not None:
            assert row.deliver_at_ms is not None
            expire_at_ms += due_ms - row.deliver_at_ms
        return row._replace(
            k=self._core.staging.order.next_key(due_ms),
            deliver_at_ms=due_ms,
            expire_at_ms=expire_at_ms,
            # Its id tells the key it had first; from now on the index has to find it.
            msg_hash=id_hash(row.msg_id),
            released_by=self._released_by,
        )


class Releasing(Rescheduling):
    """Messages go to their target now."""

    action: ClassVar = "release"
    receipt: ClassVar = Receipt.RELEASED

    def __init__(self, core: Core, ending: Ending) -> None:
        """Prepare; ``ending`` says who releases."""
        super().__init__(core, by_ms=-LATEST_DUE_MS)
        self.detail = ""
        self._released_by = ending.ended_by

    def check(self, row: StoredMessage) -> None:
        """Now is never too late."""


def _moment(deliver_at_ms: int | None) -> int:
    if type(deliver_at_ms) is not int or not 0 <= deliver_at_ms <= LATEST_DUE_MS:
        raise mq_error(
            rc.MQRC_OPTIONS_ERROR,
            f"deliver_at_ms {deliver_at_ms!r} is not within 0 .. {LATEST_DUE_MS}",
        )
    return deliver_at_ms
