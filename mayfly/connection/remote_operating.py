"""The verbs of an operator over a remote connection: the schedule, administration, claims."""

from __future__ import annotations

import builtins
from collections.abc import Iterator
from typing import Any, TypeVar

from mayfly.connection.remote_conversation import Conversation
from mayfly.connection.values import (
    AuditEntry,
    ConsumerState,
    Counts,
    OwnTime,
    Receipt,
    Scheduled,
    ScheduleFilter,
    Verification,
    Whereabouts,
    stored_id,
)
from mayfly.engine import PropertyQuestion, StoriesFound
from mayfly.engine.face.programs import check_page
from mayfly.mqsc import MqscResult
from mayfly.mqsc.result import CommandResult
from mayfly.mqsc.result import Message as MqscMessage
from mayfly.store.ledger import PositionTrimmed
from mayfly.verbs import requests as ask

_R = TypeVar("_R")
_EVERYTHING = ScheduleFilter()


class RemoteSchedule:
    """See ``operating.ScheduleVerbs``, whose methods these are."""

    def __init__(self, conversation: Conversation, *, in_unit: bool = False) -> None:
        """Ask over a conversation; changes are durable at once, or part of the unit of work."""
        self._call, self._in_unit = conversation.call, in_unit

    def list(
        self, where: ScheduleFilter = _EVERYTHING, *, limit: int = 20, after: int | None = None
    ) -> builtins.list[Scheduled]:
        """Return delayed messages by delivery time."""
        # Checked here, as in one process: a value that is no number cannot even be sent.
        check_page(limit, after)
        return self._call(ask.ListSchedule(_row(where), limit, after))

    def show(self, msg_id: bytes | str) -> Scheduled | None:
        """Return the delayed message that was sent under a MsgId."""
        return self._call(ask.ShowScheduled(stored_id(msg_id, "msg_id")))

    def count(self, queue: str | None = None) -> int:
        """Return how many messages are delayed."""
        return self._call(ask.CountScheduled(queue))

    def cancel(self, msg_id: bytes | str) -> Receipt:
        """Take the messages of a MsgId off the schedule."""
        asked = ask.CancelScheduled(self._in_unit, stored_id(msg_id, "msg_id"))
        return _receipt_of(self._call(asked))

    def reschedule(
        self, msg_id: bytes | str, *, delay_ms: int | None = None, deliver_at_ms: int | None = None
    ) -> Receipt:
        """Give the messages of a MsgId another delivery time."""
        asked = ask.Reschedule(self._in_unit, stored_id(msg_id, "msg_id"), delay_ms, deliver_at_ms)
        return _receipt_of(self._call(asked))

    def release(self, msg_id: bytes | str) -> Receipt:
        """Let the messages of a MsgId go to their target now."""
        asked = ask.ReleaseScheduled(self._in_unit, stored_id(msg_id, "msg_id"))
        return _receipt_of(self._call(asked))

    def cancel_all(self, where: ScheduleFilter) -> Iterator[int]:
        """Cancel everything a filter finds."""
        return self._steps(ask.CancelAll(self._in_unit, _row(where)))

    def reschedule_all(
        self,
        where: ScheduleFilter,
        *,
        delay_ms: int | None = None,
        deliver_at_ms: int | None = None,
        by_ms: int | None = None,
    ) -> Iterator[int]:
        """Give everything a filter finds another delivery time."""
        wanted = _row(where), delay_ms, deliver_at_ms, by_ms
        return self._steps(ask.RescheduleAll(self._in_unit, *wanted))

    def release_all(self, where: ScheduleFilter) -> Iterator[int]:
        """Let everything a filter finds go now."""
        return self._steps(ask.ReleaseAll(self._in_unit, _row(where)))

    def audit(self, limit: int = 20) -> builtins.list[AuditEntry]:
        """Return the latest changes of the schedule."""
        check_page(limit)
        return self._call(ask.Audit(limit))

    def now_ms(self) -> int:
        """Return the time by which messages are due."""
        return self._call(ask.Now())

    def _steps(self, request: ask.Request[int]) -> Iterator[int]:
        number = self._call(request)
        while (done_count := self._call(ask.GoOn(self._in_unit, number))) is not None:
            yield done_count


class RemoteStories:
    """See ``operating.StoryVerbs``, whose methods these are."""

    def __init__(self, conversation: Conversation) -> None:
        """Ask over a conversation."""
        self._call = conversation.call

    def of(self, identifier: bytes | str) -> Whereabouts:
        """Return where a message has been."""
        return self._call(ask.Story(stored_id(identifier)))

    def with_property(self, question: PropertyQuestion) -> StoriesFound:
        """Return the stories of messages that are here and have a property."""
        return self._call(ask.Stories(*question))


class RemoteAdministration:
    """See ``operating.Administration``, whose methods these are."""

    def __init__(self, conversation: Conversation) -> None:
        """Ask over a conversation."""
        self._conversation, self._call = conversation, conversation.call

    @property
    def stories(self) -> RemoteStories:
        """Where messages have been."""
        return RemoteStories(self._conversation)

    @property
    def ledger(self) -> RemoteLedger:
        """The lives that have ended."""
        return RemoteLedger(self._conversation)

    def mqsc(self, script: str) -> MqscResult:
        """Run MQSC commands."""
        return _script_of(self._call(ask.RunMqsc(script)))

    def counts(self, queue: str) -> Counts:
        """Return the counts of a local queue."""
        return self._call(ask.AskCounts(queue))

    def curdepth(self, queue: str) -> int:
        """Return CURDEPTH."""
        return self._call(ask.AskCurdepth(queue))

    def why(self, identifier: bytes | str) -> Whereabouts:
        """Return the place or the outcome of a message."""
        return self._call(ask.Why(stored_id(identifier)))

    def verify(self) -> Verification:
        """Recount everything and compare."""
        return self._call(ask.Verify())

    def delay_processor_status(self) -> str:
        """Return how delayed messages go."""
        return self._call(ask.AskDelayProcessorStatus())

    def own_time(self) -> OwnTime:
        """Return its own time beside the clock of its machine."""
        return self._call(ask.AskOwnTime())

    def follow_wall(self) -> OwnTime:
        """Follow the clock of its machine forward."""
        return self._call(ask.FollowWall())

    def advance_clock(self, ms: int) -> OwnTime:
        """Move a virtual clock on."""
        return self._call(ask.AdvanceClock(ms))

    def run_due(self) -> None:
        """Do all work that is due."""
        self._call(ask.RunDue())


class RemoteLedger:
    """See ``operating.LedgerVerbs``, whose methods these are."""

    def __init__(self, conversation: Conversation) -> None:
        """Ask over a conversation."""
        self._call = conversation.call

    def first_position(self) -> int:
        """Return the oldest position that is held."""
        return self._call(ask.AskFirstPosition())

    def page(self, after_position: int, max_rows: int) -> list[tuple[Any, ...]]:
        """Return rows that follow a position."""
        rows, first_held = self._call(ask.ReadLedger(after_position, max_rows))
        if first_held is not None:
            raise PositionTrimmed(after_position, first_held)
        return rows


class RemoteClaims:
    """See ``operating.ClaimVerbs``, whose methods these are."""

    def __init__(self, conversation: Conversation) -> None:
        """Ask over a conversation."""
        self._call = conversation.call

    @property
    def instance_id(self) -> str:
        """The store of the queue manager."""
        return self._call(ask.AskInstance())

    def standings(self) -> list[ConsumerState]:
        """Return the state of each consumer."""
        return self._call(ask.ListConsumers())

    def end_written(self, consumer: str, until: int) -> int:
        """End claims whose messages are written."""
        return self._call(ask.EndWritten(consumer, until))

    def release(self, consumer: str) -> int:
        """Give claimed messages back."""
        return self._call(ask.ReleaseClaims(consumer))


def _receipt_of(row: ask.ReceiptRow) -> Receipt:
    return row.receipt.of(row.message_count)


def _row(where: ScheduleFilter) -> ask.Filter:
    """Return a filter as it travels."""
    return ask.Filter(
        where.queue, where.sender, [*where.properties], where.due_from_ms, where.due_before_ms
    )


def _script_of(row: ask.ScriptRow) -> MqscResult:
    """Return the result of MQSC commands that has travelled."""
    return MqscResult(
        row.text,
        tuple(
            CommandResult(
                command.number,
                command.command,
                tuple(MqscMessage(*message) for message in command.messages),
                tuple(command.rows),
            )
            for command in row.commands
        ),
    )
