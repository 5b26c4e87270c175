"""Dead letters and the counts of a handler as JSON objects, for commands and servers."""

from __future__ import annotations

from mayfly.dead_letter.dead_letters import DeadLetter
from mayfly.dead_letter.handler import DeadLetterHandler, Outcome
from mayfly.engine import Message
from mayfly.mqi.causes import cause_name


def letter_as_json(message: Message, letter: DeadLetter | None) -> dict[str, object]:
    """Return a letter for JSON; all about the header is null where there is none."""
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


def summary_as_json(handler: DeadLetterHandler) -> dict[str, object]:
    """Return what a handler did for JSON: counts by outcome, failed attempts by reason."""
    failures = {cause_name(reason): count for reason, count in sorted(handler.failures.items())}
    return {outcome.value: handler.counts[outcome] for outcome in Outcome} | {"failures": failures}
