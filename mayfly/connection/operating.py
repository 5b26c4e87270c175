"""The verbs of an operator on a connection: the schedule, claims, the ledger, administration."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

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
)
from mayfly.engine import PropertyQuestion, StoriesFound
from mayfly.mqsc import MqscResult


class ScheduleVerbs(Protocol):
    """The schedule of delayed messages, and changes of it with receipts (docs/SCHEDULE.md).

    Changes by ``schedule`` are durable when they return; those by ``schedule_in_unit`` are part of
    the unit of work. A change by MsgId is one of all messages that wait under it; the receipt's
    ``message_count`` says how many they were.
    """

    def list(
        self, where: ScheduleFilter = ..., *, limit: int = 20, after: int | None = None
    ) -> list[Scheduled]:
        """Return delayed messages by delivery time, those after a position."""

    def show(self, msg_id: bytes | str) -> Scheduled | None:
        """Return the delayed message that was sent under a MsgId, of several the next one due.

        None when none waits.
        """

    def count(self, queue: str | None = None) -> int:
        """Return how many messages are delayed, or how many of them wait for one queue."""

    def cancel(self, msg_id: bytes | str) -> Receipt:
        """Take the messages of a MsgId off the schedule."""

    def reschedule(
        self, msg_id: bytes | str, *, delay_ms: int | None = None, deliver_at_ms: int | None = None
    ) -> Receipt:
        """Give the messages of a MsgId another delivery time."""

    def release(self, msg_id: bytes | str) -> Receipt:
        """Release the messages of a MsgId now: they go to their targets."""

    def cancel_all(self, where: ScheduleFilter) -> Iterator[int]:
        """Cancel all messages that a filter finds; yields the number done so far."""

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

    def release_all(self, where: ScheduleFilter) -> Iterator[int]:
        """Release all messages that a filter finds now; yields the number done so far."""

    def audit(self, limit: int = 20) -> Sequence[AuditEntry]:
        """Return the latest changes of the schedule, newest first."""

    def now_ms(self) -> int:
        """Return the time by which messages are due: ms since 1970, UTC."""


class ClaimVerbs(Protocol):
    """The messages that consumers of pipelines have claimed from queues (docs/SPARK.md)."""

    @property
    def instance_id(self) -> str:
        """The id of the queue manager's store, which checkpoints contain."""

    def standings(self) -> list[ConsumerState]:
        """Return the state of each consumer, by name."""

    def end_written(self, consumer: str, until: int) -> int:
        """End the claims up to a number: their messages are written; return how many there were.

        Raises MQRC_UNKNOWN_OBJECT_NAME for a consumer that is not known, and MQRC_OBJECT_CHANGED
        for claims that this store has not made: it was restored from an older copy.
        """

    def release(self, consumer: str) -> int:
        """Give claimed messages back to their queue, counted; return how many there were.

        The reader of the consumer is refused from now on. Raises MQRC_UNKNOWN_OBJECT_NAME,
        MQRC_STORAGE_MEDIUM_FULL.
        """


class LedgerVerbs(Protocol):
    """The ledger of ended lives, by position (docs/LEDGER.md)."""

    def first_position(self) -> int:
        """Return the oldest position that is held, one past the newest when there is none."""

    def page(self, after_position: int, max_rows: int) -> list[tuple[Any, ...]]:
        """Return rows (LEDGER_COLUMNS) that follow a position, at most so many; [] at the end.

        Fewer may come although there are more. Raises PositionTrimmed where retention has removed
        the row right behind the position.
        """


class StoryVerbs(Protocol):
    """Stories of messages, over all queue managers of the process (docs/WHY.md)."""

    def of(self, identifier: bytes | str) -> Whereabouts:
        """Return where a message has been, by its MsgId or CorrelId.

        Raises MQRC_MD_ERROR for an id of zeros, of more than 24 bytes, or that is none.
        """

    def with_property(self, question: PropertyQuestion) -> StoriesFound:
        """Return the stories of messages that are here and have a property, the latest put first.

        Raises MQRC_OPTIONS_ERROR for a limit or a range of time that is none.
        """


class Administration(Protocol):
    """Administration of a queue manager, for operators."""

    @property
    def stories(self) -> StoryVerbs:
        """Where messages have been, here and on the queue managers beside this one."""

    @property
    def ledger(self) -> LedgerVerbs:
        """The lives that have ended."""

    def mqsc(self, script: str) -> MqscResult:
        """Run MQSC commands; a wrong one makes ``ok`` False and does not stop those after it."""

    def counts(self, queue: str) -> Counts:
        """Return staged, live, uncommitted, locked and expired_present of a local queue."""

    def curdepth(self, queue: str) -> int:
        """Return CURDEPTH: committed and uncommitted, expired ones included (E12)."""

    def why(self, identifier: bytes | str) -> Whereabouts:
        """Return the place or the outcome of a message as this queue manager alone knows it."""

    def verify(self) -> Verification:
        """Recount everything and compare."""

    def delay_processor_status(self) -> str:
        """Return ``running``, ``spark``, or ``stopped:`` with the reason (D28)."""

    def own_time(self) -> OwnTime:
        """Return its own time beside the clock of its machine (docs/CLOCKS.md)."""

    def follow_wall(self) -> OwnTime:
        """Follow the clock of its machine forward; returns the times from before.

        Raises MQRC_ENVIRONMENT_ERROR where the queue manager is ahead of that clock, and
        MQRC_FUNCTION_NOT_SUPPORTED in a queue-sharing group.
        """

    def advance_clock(self, ms: int) -> OwnTime:
        """Move a virtual clock on and do what falls due on the way; returns the times afterwards.

        All queue managers that the clock drives go along. Raises MQRC_ENVIRONMENT_ERROR where time
        goes by itself, MQRC_OPTIONS_ERROR for a step back.
        """

    def run_due(self) -> None:
        """Do all work that is due: on return, messages to be delivered by now are delivered."""
