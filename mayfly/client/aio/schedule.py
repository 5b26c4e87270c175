"""The schedule of delayed messages for tasks of one event loop (docs/WHY.md)."""

from __future__ import annotations

import builtins
from collections.abc import AsyncIterator, Iterator
from datetime import datetime, timedelta
from functools import partial

from mayfly.client.aio.outcomes import AwaitableVerbs
from mayfly.client.connection import Schedule
from mayfly.verbs.schedule import EVERYTHING, AuditEntry, Receipt, Scheduled, ScheduleFilter


class AsyncSchedule:
    """The delayed messages, as coroutines that run one after the other on the client's thread.

    Operations, parameters, results and errors are those of ``Client.schedule``.
    """

    def __init__(self, verbs: AwaitableVerbs, schedule: Schedule) -> None:
        """Take the verbs of a client, and the blocking schedule of its connection."""
        self._verbs, self._schedule = verbs, schedule

    def at(self, position: int) -> AsyncSchedule:
        """Return a schedule whose changes apply to the one message at a schedule position."""
        return AsyncSchedule(self._verbs, self._schedule.at(position))

    async def list(
        self,
        where: ScheduleFilter | str = EVERYTHING,
        *,
        limit: int = 20,
        after: int | None = None,
    ) -> builtins.list[Scheduled]:
        """Return up to ``limit`` delayed messages that match a filter, or are for a queue."""
        return await self._verbs.run(partial(self._schedule.list, where, limit=limit, after=after))

    async def show(self, msg_id: bytes | str) -> Scheduled | None:
        """Return the delayed message with a MsgId, the next due of several; None without one."""
        return await self._verbs.run(partial(self._schedule.show, msg_id))

    async def count(self, queue: str | None = None) -> int:
        """Return the number of delayed messages, of all queues or of one."""
        return await self._verbs.run(partial(self._schedule.count, queue))

    async def cancel(self, msg_id: bytes | str) -> Receipt:
        """Remove the delayed messages with a MsgId; the receipt says how many, or why none."""
        return await self._verbs.run(partial(self._schedule.cancel, msg_id))

    async def reschedule(
        self,
        msg_id: bytes | str,
        *,
        delay_ms: int | timedelta | None = None,
        deliver_at_ms: int | datetime | None = None,
    ) -> Receipt:
        """Give the delayed messages with a MsgId another delivery time; return a receipt."""
        work = partial(
            self._schedule.reschedule, msg_id, delay_ms=delay_ms, deliver_at_ms=deliver_at_ms
        )
        return await self._verbs.run(work)

    async def release(self, msg_id: bytes | str) -> Receipt:
        """Make the delayed messages with a MsgId due now; the receipt says how many."""
        return await self._verbs.run(partial(self._schedule.release, msg_id))

    def cancel_all(self, where: ScheduleFilter) -> AsyncIterator[int]:
        """Cancel all delayed messages that match a filter; yield the number so far after a step."""
        return self._steps(self._schedule.cancel_all(where))

    def reschedule_all(
        self,
        where: ScheduleFilter,
        *,
        delay_ms: int | timedelta | None = None,
        deliver_at_ms: int | datetime | None = None,
        by_ms: int | timedelta | None = None,
    ) -> AsyncIterator[int]:
        """Give all messages that match a filter another delivery time; yield the number so far."""
        return self._steps(
            self._schedule.reschedule_all(
                where, delay_ms=delay_ms, deliver_at_ms=deliver_at_ms, by_ms=by_ms
            )
        )

    def release_all(self, where: ScheduleFilter) -> AsyncIterator[int]:
        """Make all messages that match a filter due now; yield the number so far after a step."""
        return self._steps(self._schedule.release_all(where))

    async def audit(self, limit: int = 20) -> builtins.list[AuditEntry]:
        """Return the latest ``limit`` changes of the schedule, newest first; [] without any."""
        return await self._verbs.run(partial(self._schedule.audit, limit))

    async def audit_before(self, number: int, limit: int) -> builtins.list[tuple[int, AuditEntry]]:
        """Return up to ``limit`` changes before change ``number``, newest first, with numbers."""
        return await self._verbs.run(partial(self._schedule.audit_before, number, limit))

    async def now_ms(self) -> int:
        """Return the time of the schedule: ms since 1970, UTC."""
        return await self._verbs.run(self._schedule.now_ms)

    async def _steps(self, steps: Iterator[int]) -> AsyncIterator[int]:
        """Run the steps of a bulk change one by one on the client's thread, as they are awaited."""
        while (done_count := await self._verbs.run(partial(next, steps, None))) is not None:
            yield done_count
