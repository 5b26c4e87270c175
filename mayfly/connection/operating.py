"""What an operator can do by a connection: change the schedule, and administer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from mayfly.connection.values import (
    AuditEntry,
    Counts,
    Receipt,
    Scheduled,
    ScheduleFilter,
    Verification,
    Whereabouts,
)
from mayfly.mqsc import MqscResult


class ScheduleVerbs(Protocol):
    """Delayed messages: what waits, and changes of it with receipts (docs/SCHEDULE.md)."""

    def list(
        self, where: ScheduleFilter = ..., *, limit: int = 20, after: int | None = None
    ) -> list[Scheduled]:
        """Return delayed messages by delivery time, those after a position."""

    def show(self, msg_id: bytes | str) -> Scheduled | None:
        """Return the delayed message that was sent under a MsgId, None when none waits."""

    def count(self, queue: str | None = None) -> int:
        """Return how many messages are delayed, or how many of them wait for one queue."""

    def cancel(self, msg_id: bytes | str) -> Receipt:
        """Take a message off the schedule."""

    def reschedule(
        self, msg_id: bytes | str, *, delay_ms: int | None = None, deliver_at_ms: int | None = None
    ) -> Receipt:
        """Give a message another delivery time."""

    def release(self, msg_id: bytes | str) -> Receipt:
        """Let a message go to its target now."""

    def cancel_all(self, where: ScheduleFilter) -> Iterator[int]:
        """Cancel everything a filter finds; yields the number done so far."""

    def release_all(self, where: ScheduleFilter) -> Iterator[int]:
        """Let everything a filter finds go now; yields the number done so far."""

    def audit(self, limit: int = 20) -> Sequence[AuditEntry]:
        """Return the latest changes of the schedule, newest first."""

    def now_ms(self) -> int:
        """Return the time by which messages are due: ms since 1970, UTC."""


class Administration(Protocol):
    """What an operator does with a queue manager."""

    def mqsc(self, script: str) -> MqscResult:
        """Run MQSC commands; a wrong one makes ``ok`` False and does not stop those after it."""

    def counts(self, queue: str) -> Counts:
        """Return staged, live, uncommitted, locked and expired_present of a local queue."""

    def curdepth(self, queue: str) -> int:
        """Return CURDEPTH: committed and uncommitted, expired ones included (E12)."""

    def why(self, identifier: bytes | str) -> Whereabouts:
        """Say where the message with a MsgId or CorrelId is, or what became of it."""

    def verify(self) -> Verification:
        """Recount everything and compare."""

    def delay_processor_status(self) -> str:
        """Return how delayed messages go: ``running``, ``spark``, ``stopped:`` and why (D28)."""
