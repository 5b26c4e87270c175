"""The output of ``mayfly dlq``: dead letters, and the outcomes of a run."""

from __future__ import annotations

from collections.abc import Mapping

from mayfly.cli.show import remaining
from mayfly.mqi.reasons import cause_name
from mayfly.services.dead_letter import DeadLetter, DeadLetterHandler, Outcome
from mayfly.verbs.messages import Message

HEAD = ("MsgId", "reason", "for queue", "age", "expires in", "bytes")


def letter_cells(message: Message, letter: DeadLetter | None) -> tuple[str, ...]:
    """Return a line of the list; without a header only what the descriptor says."""
    left = remaining(message.remaining_ms)
    if letter is None:
        return message.msg_id.hex(), "(no header)", "-", "-", left, f"{len(message.body):,}"
    since_ms = letter.since_ms
    age = "-" if since_ms is None else remaining(max(message.seen_ms - since_ms, 0))
    reason, size = cause_name(letter.reason), f"{len(letter.data):,}"
    return message.msg_id.hex(), reason, letter.target or "-", age, left, size


def summary(counts: Mapping[Outcome, int]) -> str:
    """Return in one line what happened, only what did."""
    happened = [f"{counts[o]:,} {o.value.replace('_', ' ')}" for o in Outcome if counts.get(o)]
    return ", ".join(happened) or "nothing to do"


def failed_with(handler: DeadLetterHandler) -> str:
    """Return in one line what has failed and why, empty when nothing has."""
    return ", ".join(
        f"{count:,} failed with {cause_name(reason)}"
        for reason, count in sorted(handler.failures.items())
    )
