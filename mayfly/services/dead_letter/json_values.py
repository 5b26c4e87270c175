"""Dead letters and the counts of a handler as JSON objects, for commands and servers."""

from __future__ import annotations

from collections import Counter
from typing import TypedDict

from mayfly.mqi.reasons import cause_name
from mayfly.services.dead_letter.dead_letters import DeadLetter
from mayfly.services.dead_letter.handler import Outcome
from mayfly.verbs.messages import Message


class LetterJson(TypedDict):
    """A message on a dead-letter queue; all about its header is null where there is none.

    Times are ms since 1970; ``expire_at_ms`` and ``remaining_ms`` are null for a message that never
    expires. ``queue`` and ``queue_manager`` are those that it was meant for.
    """

    msg_id: str
    correl_id: str
    reason: int | None
    reason_name: str | None
    queue: str | None
    queue_manager: str | None
    since_ms: int | None
    age_ms: int | None
    put_ms: int
    expire_at_ms: int | None
    remaining_ms: int | None
    persistent: bool
    format: str | None
    body_bytes: int


class SummaryJson(TypedDict):
    """Dead letters counted by outcome, and failed attempts by the name of the reason."""

    discarded: int
    forwarded: int
    redriven: int
    ignored: int
    left: int
    without_header: int
    gone: int
    failed: int
    failures: dict[str, int]


def letter_as_json(message: Message, letter: DeadLetter | None) -> LetterJson:
    """Return a letter for JSON."""
    since_ms = None if letter is None else letter.since_ms
    return {
        "msg_id": message.msg_id.hex(),
        "correl_id": message.correl_id.hex(),
        "reason": None if letter is None else letter.reason,
        "reason_name": None if letter is None else cause_name(letter.reason),
        "queue": None if letter is None else letter.target,
        "queue_manager": None if letter is None else letter.target_manager,
        "since_ms": since_ms,
        "age_ms": None if since_ms is None else max(message.seen_ms - since_ms, 0),
        "put_ms": message.put_ms,
        "expire_at_ms": message.expire_at_ms,
        "remaining_ms": message.remaining_ms,
        "persistent": message.persistent,
        "format": None if letter is None else letter.original.format.strip(),
        "body_bytes": len(message.body if letter is None else letter.data),
    }


class RedrivenJson(SummaryJson):
    """The counts of a redrive; with ``dry_run`` those of letters that would be tried."""

    dry_run: bool


def summary_as_json(counts: Counter[Outcome], failures: Counter[int]) -> SummaryJson:
    """Return counts by outcome, and of failed attempts by reason, for JSON."""
    return {
        "discarded": counts[Outcome.DISCARDED],
        "forwarded": counts[Outcome.FORWARDED],
        "redriven": counts[Outcome.REDRIVEN],
        "ignored": counts[Outcome.IGNORED],
        "left": counts[Outcome.LEFT],
        "without_header": counts[Outcome.WITHOUT_HEADER],
        "gone": counts[Outcome.GONE],
        "failed": counts[Outcome.FAILED],
        "failures": {cause_name(reason): count for reason, count in sorted(failures.items())},
    }
