"""The schedule of delayed messages of a queue manager that another process serves."""

from __future__ import annotations

from collections.abc import Iterator

from mayfly.engine import AuditEntry, Identifier, Receipt, Scheduled, ScheduleFilter, stored_id
from mayfly.served.calls import Calls

_EVERYTHING = ScheduleFilter()


class ServedSchedule:
    """The methods, errors and receipts of ``engine.delay.schedule.Schedule``.

    Messages that a change releases are at their targets when the call returns.
    """

    def __init__(self, calls: Calls) -> None:
        """Speak over the exchange of a session; the session calls this."""
        self._calls = calls

    def audit(self, limit: int = 20) -> list[AuditEntry]:
        """Return the latest changes of the schedule, newest first."""
        entries, _ = self._calls.call("schedule-audit", limit=limit)
        return [AuditEntry(*entry) for entry in entries]

    def now_ms(self) -> int:
        """Return the time of the queue manager, by which messages are due: ms since 1970, UTC."""
        return int(self._calls.call("schedule-now")[0])

    def list(
        self, where: ScheduleFilter = _EVERYTHING, *, limit: int = 20, after: int | None = None
    ) -> list[Scheduled]:
        """Return delayed messages by delivery time, then put order, those after a position."""
        entries, _ = self._calls.call("schedule-list", where=where, limit=limit, after=after)
        return [Scheduled(*entry) for entry in entries]

    def show(self, msg_id: Identifier) -> Scheduled | None:
        """Return the delayed message that was sent under a MsgId, None when none waits."""
        entry, _ = self._calls.call("schedule-show", msg_id=stored_id(msg_id, "msg_id"))
        return None if entry is None else Scheduled(*entry)

    def count(self, queue: str | None = None) -> int:
        """Return how many messages are delayed, or how many of them wait for one queue."""
        count, _ = self._calls.call("schedule-count", queue=queue)
        return int(count)

    def cancel(self, msg_id: Identifier) -> Receipt:
        """Take a message off the schedule."""
        return Receipt(self._calls.call("schedule-cancel", msg_id=stored_id(msg_id, "msg_id"))[0])

    def reschedule(
        self, msg_id: Identifier, *, delay_ms: int | None = None, deliver_at_ms: int | None = None
    ) -> Receipt:
        """Give a message another delivery time."""
        receipt, _ = self._calls.call(
            "schedule-reschedule",
            msg_id=stored_id(msg_id, "msg_id"),
            delay_ms=delay_ms,
            deliver_at_ms=deliver_at_ms,
        )
        return Receipt(receipt)

    def release(self, msg_id: Identifier) -> Receipt:
        """Let a message go to its target now."""
        return Receipt(self._calls.call("schedule-release", msg_id=stored_id(msg_id, "msg_id"))[0])

    def cancel_all(self, where: ScheduleFilter) -> Iterator[int]:
        """Cancel everything a filter finds; yields the number done so far, batch by batch."""
        for count, _ in self._calls.stream("schedule-cancel-all", where=where):
            yield count

    def reschedule_all(
        self,
        where: ScheduleFilter,
        *,
        delay_ms: int | None = None,
        deliver_at_ms: int | None = None,
        by_ms: int | None = None,
    ) -> Iterator[int]:
        """Give everything a filter finds another delivery time; yields as :meth:`cancel_all`."""
        for count, _ in self._calls.stream(
            "schedule-reschedule-all",
            where=where,
            delay_ms=delay_ms,
            deliver_at_ms=deliver_at_ms,
            by_ms=by_ms,
        ):
            yield count

    def release_all(self, where: ScheduleFilter) -> Iterator[int]:
        """Let everything a filter finds go now; yields as :meth:`cancel_all`."""
        for count, _ in self._calls.stream("schedule-release-all", where=where):
            yield count
