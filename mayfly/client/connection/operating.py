"""The verbs of an operator on a connection: the schedule, claims, the ledger, administration."""

from __future__ import annotations

import builtins
from collections.abc import Iterator
from typing import Any

from mayfly.verbs import requests as ask
from mayfly.verbs.checks import stored_id
from mayfly.verbs.contracts.claims import ConsumerState
from mayfly.verbs.contracts.ledger import PositionTrimmed
from mayfly.verbs.facts import Counts, MqscResult, OwnTime, Verification
from mayfly.verbs.requests import Calls
from mayfly.verbs.schedule import AuditEntry, Receipt, Scheduled, ScheduleFilter, check_page
from mayfly.verbs.trace import MessageTrace, PropertyQuestion, TracesFound

_EVERYTHING = ScheduleFilter()


class Schedule:
    """The schedule of delayed messages, and changes of it with receipts (docs/SCHEDULE.md).

    Changes by ``schedule`` are durable when they return; those by ``schedule_in_unit`` are part of
    the unit of work. A change by MsgId is one of all messages that wait under it; the receipt's
    ``message_count`` says how many they were.
    """

    def __init__(self, call: Calls, *, in_unit: bool = False, position: int | None = None) -> None:
        """Make requests by ``Connection.call``."""
        self._call, self._in_unit, self._position = call, in_unit, position

    def at(self, position: int) -> Schedule:
        """Return the same, which changes the one message that has a position of the schedule.

        It raises MQRC_OBJECT_CHANGED for a message that somebody has rescheduled meanwhile.
        """
        return Schedule(self._call, in_unit=self._in_unit, position=position)

    def list(
        self, where: ScheduleFilter = _EVERYTHING, *, limit: int = 20, after: int | None = None
    ) -> builtins.list[Scheduled]:
        """Return delayed messages by delivery time, those after a position."""
        # Checked here, as in one process: a value that is no number cannot even be sent.
        check_page(limit, after)
        return self._call(ask.ListSchedule(where, limit, after))

    def show(self, msg_id: bytes | str) -> Scheduled | None:
        """Return the delayed message that was sent under a MsgId, of several the next one due.

        None when none waits.
        """
        return self._call(ask.ShowScheduled(stored_id(msg_id, "msg_id")))

    def count(self, queue: str | None = None) -> int:
        """Return how many messages are delayed, or how many of them wait for one queue."""
        return self._call(ask.CountScheduled(queue))

    def cancel(self, msg_id: bytes | str) -> Receipt:
        """Take the messages of a MsgId off the schedule."""
        asked = ask.CancelScheduled(self._in_unit, stored_id(msg_id, "msg_id"), self._position)
        return _receipt_of(self._call(asked))

    def reschedule(
        self, msg_id: bytes | str, *, delay_ms: int | None = None, deliver_at_ms: int | None = None
    ) -> Receipt:
        """Give the messages of a MsgId another delivery time."""
        wanted = stored_id(msg_id, "msg_id"), delay_ms, deliver_at_ms, self._position
        asked = ask.Reschedule(self._in_unit, *wanted)
        return _receipt_of(self._call(asked))

    def release(self, msg_id: bytes | str) -> Receipt:
        """Release the messages of a MsgId now: they go to their targets."""
        asked = ask.ReleaseScheduled(self._in_unit, stored_id(msg_id, "msg_id"), self._position)
        return _receipt_of(self._call(asked))

    def cancel_all(self, where: ScheduleFilter) -> Iterator[int]:
        """Cancel all messages that a filter finds; yields the number done so far."""
        return self._steps(ask.CancelAll(self._in_unit, where))

    def reschedule_all(
        self,
        where: ScheduleFilter,
        *,
        delay_ms: int | None = None,
        deliver_at_ms: int | None = None,
        by_ms: int | None = None,
    ) -> Iterator[int]:
        """Give all messages that a filter finds another delivery time; yields the number so far.

        ``by_ms`` moves each delivery time by so much. Raises MQRC_OPTIONS_ERROR unless exactly one
        of the three is given, and MQRC_EXPIRY_ERROR for a time behind the expiry of a message
        (D7). After an error nothing is changed.
        """
        wanted = where, delay_ms, deliver_at_ms, by_ms
        return self._steps(ask.RescheduleAll(self._in_unit, *wanted))

    def release_all(self, where: ScheduleFilter) -> Iterator[int]:
        """Release all messages that a filter finds now; yields the number done so far."""
        return self._steps(ask.ReleaseAll(self._in_unit, where))

    def audit(self, limit: int = 20) -> builtins.list[AuditEntry]:
        """Return the latest changes of the schedule, newest first."""
        check_page(limit)
        return [entry for _number, entry in self._call(ask.Audit(limit))]

    def audit_before(self, number: int, limit: int) -> builtins.list[tuple[int, AuditEntry]]:
        """Return changes before the one with a number, newest first, each with its number."""
        check_page(limit, number)
        return self._call(ask.Audit(limit, number))

    def now_ms(self) -> int:
        """Return the time by which messages are due: ms since 1970, UTC."""
        return self._call(ask.Now())

    def _steps(self, request: ask.Request[int]) -> Iterator[int]:
        number = self._call(request)
        while (done_count := self._call(ask.GoOn(self._in_unit, number))) is not None:
            yield done_count


class Claims:
    """The messages that consumers of pipelines have claimed from queues (docs/SPARK.md)."""

    def __init__(self, call: Calls) -> None:
        """Make requests by ``Connection.call``."""
        self._call = call

    @property
    def instance_id(self) -> str:
        """The id of the queue manager's store, which checkpoints contain."""
        return self._call(ask.AskInstance())

    def standings(self) -> list[ConsumerState]:
        """Return the state of each consumer, by name."""
        return self._call(ask.ListConsumers())

    def end_written(self, consumer: str, until: int) -> int:
        """End the claims up to a number: their messages are written; return how many there were.

        Raises MQRC_UNKNOWN_OBJECT_NAME for a consumer that is not known, and MQRC_OBJECT_CHANGED
        for claims that this store has not made: it was restored from an older copy.
        """
        return self._call(ask.EndWritten(consumer, until))

    def release(self, consumer: str) -> int:
        """Give claimed messages back to their queue, counted; return how many there were.

        The reader of the consumer is refused from now on. Raises MQRC_UNKNOWN_OBJECT_NAME,
        MQRC_STORAGE_MEDIUM_FULL.
        """
        return self._call(ask.ReleaseClaims(consumer))


class Ledger:
    """The ledger of ended lives, by position (docs/LEDGER.md)."""

    def __init__(self, call: Calls) -> None:
        """Make requests by ``Connection.call``."""
        self._call = call

    def first_position(self) -> int:
        """Return the oldest position that is held, one past the newest when there is none."""
        return self._call(ask.AskFirstPosition())

    def page(self, after_position: int, max_rows: int) -> list[tuple[Any, ...]]:
        """Return rows (LEDGER_COLUMNS) that follow a position, at most so many; [] at the end.

        Fewer may come although there are more. Raises PositionTrimmed where retention has removed
        the row right behind the position.
        """
        rows, first_held = self._call(ask.ReadLedger(after_position, max_rows))
        if first_held is not None:
            raise PositionTrimmed(after_position, first_held)
        return rows


class MessageTraces:
    """Traces of messages, over all queue managers of the process (docs/WHY.md)."""

    def __init__(self, call: Calls) -> None:
        """Make requests by ``Connection.call``."""
        self._call = call

    def of(self, identifier: bytes | str) -> MessageTrace:
        """Return where a message has been, by its MsgId or CorrelId.

        Raises MQRC_MD_ERROR for an id of zeros, of more than 24 bytes, or that is none.
        """
        return self._call(ask.AskTrace(stored_id(identifier)))

    def with_property(self, question: PropertyQuestion) -> TracesFound:
        """Return the traces of messages that are here and have a property, the latest put first.

        Raises MQRC_OPTIONS_ERROR for a limit or a range of time that is none.
        """
        return self._call(ask.AskTraces(*question))


class Administration:
    """Administration of a queue manager, for operators."""

    def __init__(self, call: Calls) -> None:
        """Make requests by ``Connection.call``."""
        self._call = call

    @property
    def traces(self) -> MessageTraces:
        """Where messages have been, here and on the queue managers beside this one."""
        return MessageTraces(self._call)

    @property
    def ledger(self) -> Ledger:
        """The lives that have ended."""
        return Ledger(self._call)

    def mqsc(self, script: str) -> MqscResult:
        """Run MQSC commands; a wrong one makes ``ok`` False and does not stop those after it."""
        return self._call(ask.RunMqsc(script))

    def counts(self, queue: str) -> Counts:
        """Return staged, live, uncommitted, locked and expired_present of a local queue."""
        return self._call(ask.AskCounts(queue))

    def curdepth(self, queue: str) -> int:
        """Return CURDEPTH: committed and uncommitted, expired ones included (E12)."""
        return self._call(ask.AskCurdepth(queue))

    def why(self, identifier: bytes | str) -> MessageTrace:
        """Return the place or the outcome of a message as this queue manager alone knows it."""
        return self._call(ask.Why(stored_id(identifier)))

    def verify(self) -> Verification:
        """Recount everything and compare."""
        return self._call(ask.Verify())

    def delay_processor_status(self) -> str:
        """Return ``running``, ``spark``, or ``stopped:`` with the reason (D28)."""
        return self._call(ask.AskDelayProcessorStatus())

    def own_time(self) -> OwnTime:
        """Return its own time beside the clock of its machine (docs/CLOCKS.md)."""
        return self._call(ask.AskOwnTime())

    def follow_wall(self) -> OwnTime:
        """Follow the clock of its machine forward; returns the times from before.

        Raises MQRC_ENVIRONMENT_ERROR where the queue manager is ahead of that clock, and
        MQRC_FUNCTION_NOT_SUPPORTED in a queue-sharing group.
        """
        return self._call(ask.FollowWall())

    def advance_clock(self, ms: int) -> OwnTime:
        """Move a virtual clock on and do what falls due on the way; returns the times afterwards.

        All queue managers that the clock drives go along. Raises MQRC_ENVIRONMENT_ERROR where time
        goes by itself, MQRC_OPTIONS_ERROR for a step back.
        """
        return self._call(ask.AdvanceClock(ms))

    def run_due(self) -> None:
        """Do all work that is due: on return, messages to be delivered by now are delivered."""
        self._call(ask.RunDue())


def _receipt_of(row: ask.ReceiptRow) -> Receipt:
    return row.receipt.of(row.message_count)
