"""The verbs of an operator: the schedule, Spark's claims, the ledger and administration."""

from __future__ import annotations

import builtins
from collections.abc import Iterator
from typing import Any

from mayfly.lifetime.times import ms_of_duration, ms_of_moment
from mayfly.verbs import requests as ask
from mayfly.verbs.checks import Duration, Moment, stored_id
from mayfly.verbs.contracts.claims import ConsumerState
from mayfly.verbs.contracts.erasure import Erasure
from mayfly.verbs.contracts.ledger import PositionTrimmed
from mayfly.verbs.facts import (
    Counts,
    MessageTrace,
    MqscResult,
    OwnTime,
    PropertyQuestion,
    TracesFound,
    Verification,
)
from mayfly.verbs.requests import Calls
from mayfly.verbs.schedule import (
    EVERYTHING,
    AuditEntry,
    Receipt,
    Scheduled,
    ScheduleFilter,
    check_page,
    filter_of,
)


class Schedule:
    """The schedule of delayed messages, and changes of it with receipts (docs/WHY.md).

    A change through ``schedule`` is durable when it returns; one through ``schedule_in_unit`` is
    part of the unit of work. A change by MsgId applies to all delayed messages with that MsgId. Its
    receipt says how many they were (``message_count``).
    """

    def __init__(self, call: Calls, *, in_unit: bool = False, position: int | None = None) -> None:
        """Send requests by ``call``, which is ``Connection.call``.

        With ``in_unit`` changes are part of the unit of work; otherwise each is durable when it
        returns. ``position`` limits changes to one message, see :meth:`at`.
        """
        self._call, self._in_unit, self._position = call, in_unit, position

    def at(self, position: int) -> Schedule:
        """Return a schedule whose changes apply to the one message at a schedule position.

        A change raises MQRC_OBJECT_CHANGED if the message has been rescheduled meanwhile.
        """
        return Schedule(self._call, in_unit=self._in_unit, position=position)

    def list(
        self,
        where: ScheduleFilter | str = EVERYTHING,
        *,
        limit: int = 20,
        after: int | None = None,
    ) -> builtins.list[Scheduled]:
        """Return up to ``limit`` delayed messages that match a filter, ordered by delivery time.

        ``where`` may be the name of a queue, as it was named at the put.
        With ``after`` only messages with a higher schedule position come. None begins with the
        first message; for the next page ``after`` is the position of the last message so far.
        Returns [] when no message is left. Raises MQRC_OPTIONS_ERROR for a wrong ``limit`` or
        ``after``.
        """
        # Checked here, as in one process: a value that is no number cannot even be sent.
        check_page(limit, after)
        return self._call(ask.ListSchedule(filter_of(where), limit, after))

    def show(self, msg_id: bytes | str) -> Scheduled | None:
        """Return the delayed message with a MsgId, the next due of several.

        Returns None when no message with this MsgId is delayed.
        """
        return self._call(ask.ShowScheduled(stored_id(msg_id, "msg_id")))

    def count(self, queue: str | None = None) -> int:
        """Return the number of delayed messages, of all queues or of one."""
        return self._call(ask.CountScheduled(queue))

    def cancel(self, msg_id: bytes | str) -> Receipt:
        """Remove the delayed messages with a MsgId; the receipt says how many, or why none.

        Those that the user may change are removed all together, or none is. Removed messages are
        never delivered. With ``in_unit`` a backout of the unit of work keeps them.
        """
        request = ask.CancelScheduled(self._in_unit, stored_id(msg_id, "msg_id"), self._position)
        return _receipt_of(self._call(request))

    def reschedule(
        self,
        msg_id: bytes | str,
        *,
        delay_ms: Duration | None = None,
        deliver_at_ms: Moment | None = None,
    ) -> Receipt:
        """Give the delayed messages with a MsgId another delivery time.

        The time is ``delay_ms`` from now, ms or a timedelta, or ``deliver_at_ms``, ms since 1970,
        UTC, or a datetime with a time zone; a past time delivers at once. Returns a receipt, which
        says how many messages changed, or why none did. Raises MQRC_OPTIONS_ERROR for both times or
        neither, MQRC_EXPIRY_ERROR for a time after the expiry of a message, and ValueError for a
        datetime without a time zone.
        """
        request = ask.Reschedule(
            self._in_unit,
            stored_id(msg_id, "msg_id"),
            ms_of_duration(delay_ms),
            ms_of_moment(deliver_at_ms, "deliver_at_ms"),
            self._position,
        )
        return _receipt_of(self._call(request))

    def release(self, msg_id: bytes | str) -> Receipt:
        """Make the delayed messages with a MsgId due now; the receipt says how many, or why none.

        They are moved to their target queues, perhaps after this returns.
        """
        request = ask.ReleaseScheduled(self._in_unit, stored_id(msg_id, "msg_id"), self._position)
        return _receipt_of(self._call(request))

    def cancel_all(self, where: ScheduleFilter) -> Iterator[int]:
        """Cancel all delayed messages that match a filter, step by step.

        Each step runs as the caller iterates, and yields the number of messages cancelled so far, 0
        when none matches. Outside of a unit of work a step is durable when it yields.
        """
        return self._steps(ask.CancelAll(self._in_unit, where))

    def reschedule_all(
        self,
        where: ScheduleFilter,
        *,
        delay_ms: Duration | None = None,
        deliver_at_ms: Moment | None = None,
        by_ms: Duration | None = None,
    ) -> Iterator[int]:
        """Give all delayed messages that match a filter another delivery time, step by step.

        Each step runs as the caller iterates, and yields the number of messages so far. The time is
        ``delay_ms`` from now, or ``deliver_at_ms`` in ms since 1970, UTC; ``by_ms`` is added to
        each delivery time. Outside of a unit of work a step is durable when it yields. Raises
        MQRC_OPTIONS_ERROR unless exactly one of the three is used, and MQRC_EXPIRY_ERROR for a time
        after the expiry of a message. Both are raised before any message is changed.
        """
        request = ask.RescheduleAll(
            self._in_unit,
            where,
            ms_of_duration(delay_ms),
            ms_of_moment(deliver_at_ms, "deliver_at_ms"),
            ms_of_duration(by_ms),
        )
        return self._steps(request)

    def release_all(self, where: ScheduleFilter) -> Iterator[int]:
        """Make all delayed messages that match a filter due now, step by step.

        Each step runs as the caller iterates, and yields the number of messages so far. Outside of
        a unit of work a step is durable when it yields.
        """
        return self._steps(ask.ReleaseAll(self._in_unit, where))

    def audit(self, limit: int = 20) -> builtins.list[AuditEntry]:
        """Return the latest ``limit`` changes of the schedule, newest first; [] without any."""
        check_page(limit)
        return [entry for _number, entry in self._call(ask.Audit(limit))]

    def audit_before(self, number: int, limit: int) -> builtins.list[tuple[int, AuditEntry]]:
        """Return up to ``limit`` changes of the schedule before change ``number``, newest first.

        Each item is the number of the change and its entry; [] when none is left. Raises
        MQRC_OPTIONS_ERROR for a wrong ``number`` or ``limit``.
        """
        check_page(limit, number)
        return self._call(ask.Audit(limit, number))

    def now_ms(self) -> int:
        """Return the time of the schedule: ms since 1970, UTC."""
        return self._call(ask.Now())

    def _steps(self, request: ask.Request[int]) -> Iterator[int]:
        """Begin the bulk change ``request``, then run its steps.

        Each step yields the number of messages changed so far.
        """
        number = self._call(request)
        while (done_count := self._call(ask.GoOn(self._in_unit, number))) is not None:
            yield done_count


class ClientClaims:
    """The claims of consumers: messages that Spark queries have reserved (docs/PIPELINE.md)."""

    def __init__(self, call: Calls) -> None:
        """Send requests by ``call``, which is ``Connection.call``."""
        self._call = call

    @property
    def instance_id(self) -> str:
        """The id of the queue manager's store, which Spark checkpoints record."""
        return self._call(ask.AskInstance())

    def standings(self) -> list[ConsumerState]:
        """Return the state of each consumer (a Spark query that reads a queue), ordered by name."""
        return self._call(ask.ListConsumers())

    def end_written(self, consumer: str, until: int) -> int:
        """End the messages in the claims of a consumer up to claim number ``until``.

        A claim is a set of messages that a Spark batch has reserved. The caller knows that Spark
        has written these messages, so they are removed and not given back. Returns the number of
        messages. Raises MQRC_UNKNOWN_OBJECT_NAME for an unknown consumer. Raises
        MQRC_OBJECT_CHANGED for claims that this store has not made: it was restored from an older
        copy.
        """
        return self._call(ask.EndWritten(consumer, until))

    def release(self, consumer: str) -> int:
        """Return the messages that a consumer (Spark query) has reserved to their queue.

        Returns the number of messages, whose backout counts rise. The reader of the consumer is
        refused from now on. Raises MQRC_UNKNOWN_OBJECT_NAME for an unknown consumer, and
        MQRC_STORAGE_MEDIUM_FULL when the disk is full.
        """
        return self._call(ask.ReleaseClaims(consumer))


class ClientLedger:
    """The ledger of ended messages, by position (docs/LEDGER.md)."""

    def __init__(self, call: Calls) -> None:
        """Send requests by ``call``, which is ``Connection.call``."""
        self._call = call

    def first_position(self) -> int:
        """Return the oldest position in the ledger of ended messages.

        One past the newest when the ledger is empty.
        """
        return self._call(ask.AskFirstPosition())

    def page(self, after_position: int, max_rows: int) -> list[tuple[Any, ...]]:
        """Return up to ``max_rows`` rows of the ledger, one for each ended message; [] at the end.

        They are those after position ``after_position``. LEDGER_COLUMNS names the columns. Fewer
        rows may come even if more follow. Raises PositionTrimmed if retention has removed the row
        after the position.
        """
        rows, first_held = self._call(ask.ReadLedger(after_position, max_rows))
        if first_held is not None:
            raise PositionTrimmed(after_position, first_held)
        return rows


class MessageTraces:
    """Traces (histories) of messages, across all queue managers of the process (docs/WHY.md)."""

    def __init__(self, call: Calls) -> None:
        """Send requests by ``call``, which is ``Connection.call``."""
        self._call = call

    def of(self, identifier: bytes | str) -> MessageTrace:
        """Return the trace of a message by its MsgId or CorrelId: where it is, or how it ended.

        A trace with ``is_known`` False means that nothing was found. Raises MQRC_MD_ERROR for an id
        of zeros, of more than 24 bytes, or of another form.
        """
        return self._call(ask.AskTrace(stored_id(identifier)))

    def with_property(self, question: PropertyQuestion) -> TracesFound:
        """Return traces of the messages on queues that ``question`` selects by a property.

        The latest put comes first. Raises MQRC_OPTIONS_ERROR for a wrong limit or time range.
        """
        return self._call(ask.AskTraces(*question))


class Administration:
    """The administration of a queue manager, for operators."""

    def __init__(self, call: Calls) -> None:
        """Send requests by ``call``, which is ``Connection.call``."""
        self._call = call

    @property
    def traces(self) -> MessageTraces:
        """The traces of messages: where each is, or how it ended.

        All queue managers in the process of this one are searched.
        """
        return MessageTraces(self._call)

    @property
    def ledger(self) -> ClientLedger:
        """The ledger: a record of each message that has left a queue of this queue manager."""
        return ClientLedger(self._call)

    def mqsc(self, script: str) -> MqscResult:
        """Run MQSC commands and return their replies.

        A wrong command sets ``ok`` to False and does not stop the others.
        """
        return self._call(ask.RunMqsc(script))

    def counts(self, queue: str) -> Counts:
        """Return the numbers of messages of a local queue by state: staged, live, locked…

        Raises MQRC_UNKNOWN_OBJECT_NAME for another queue.
        """
        return self._call(ask.AskCounts(queue))

    def curdepth(self, queue: str) -> int:
        """Return CURDEPTH: committed and uncommitted messages, with expired ones still present.

        Raises MQRC_UNKNOWN_OBJECT_NAME when the queue is not defined.
        """
        return self._call(ask.AskCurdepth(queue))

    def why(self, identifier: bytes | str) -> MessageTrace:
        """Return where the message with a MsgId or CorrelId is, or how it ended.

        Only this queue manager is searched; ``is_known`` is False if nothing was found. Raises
        MQRC_MD_ERROR for a wrong id.
        """
        return self._call(ask.Why(stored_id(identifier)))

    def erase_lives(
        self, *, identifier: bytes | str | None = None, user: str | None = None, reason: str
    ) -> Erasure:
        """Erase ids, users and programs from records of ended messages; return the record of it.

        One of both is given: ``identifier``, a MsgId or CorrelId, or ``user``, who has put or ended
        the messages. Counts and positions stay (docs/LEDGER.md). Raises MQRC_OPTIONS_ERROR without
        a reason, or for not one of both; MQRC_MD_ERROR for a wrong id.
        """
        stored = None if identifier is None else stored_id(identifier)
        return self._call(ask.EraseLives(stored, user, reason))

    def erasures(self) -> builtins.list[Erasure]:
        """Return the records of erasures from the ledger, oldest first; [] if there was none."""
        return self._call(ask.AskErasures())

    def verify(self) -> Verification:
        """Count all messages of the queue manager again, and return how its counters compare.

        Nothing is repaired. Transactions wait during the count.
        """
        return self._call(ask.Verify())

    def delay_processor_status(self) -> str:
        """Return how delayed messages are delivered: ``running``, ``spark`` or ``stopped:``.

        ``spark`` means by a Spark job. The reason follows ``stopped:``.
        """
        return self._call(ask.AskDelayProcessorStatus())

    def own_time(self) -> OwnTime:
        """Return the time of the queue manager and that of its machine, in ms (docs/SERVING.md)."""
        return self._call(ask.AskOwnTime())

    def follow_wall(self) -> OwnTime:
        """Move the time of the queue manager forward to that of its machine.

        Returns both times as they were before. Raises MQRC_ENVIRONMENT_ERROR if the queue manager
        is ahead of that clock, and MQRC_FUNCTION_NOT_SUPPORTED in a queue-sharing group.
        """
        return self._call(ask.FollowWall())

    def advance_clock(self, ms: int) -> OwnTime:
        """Advance a virtual clock by ``ms`` and do the work that becomes due; return the new times.

        The clock may drive several queue managers. Raises MQRC_ENVIRONMENT_ERROR with a real clock
        and MQRC_OPTIONS_ERROR for a step back.
        """
        return self._call(ask.AdvanceClock(ms))

    def run_due(self) -> None:
        """Do all work of the queue manager that is due now, and return when it is done.

        Every delayed message whose delivery time has come is then on its queue.
        """
        self._call(ask.RunDue())


def _receipt_of(row: ask.ReceiptRow) -> Receipt:
    """Return the receipt of a reschedule, release or cancel, with its count of messages."""
    return row.receipt.of(row.message_count)
