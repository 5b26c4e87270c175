"""The values of operators' verbs as JSON objects: ids in hexadecimal, reasons by name as well.

A type here has the fields of the value that it is made of; that value describes them.
"""

from __future__ import annotations

from typing import TypedDict, cast

from mayfly.mqi.reasons import cause_name
from mayfly.verbs.schedule import AuditEntry, Scheduled
from mayfly.verbs.trace import MessageTrace, TraceEntry, TracesFound


class StepJson(TypedDict):
    """One event or state of a message; ``at_ms`` is ms since 1970, UTC.

    ``user`` and ``program`` are who did it, empty where that is not known.
    """

    at_ms: int
    what: str
    queue: str
    text: str
    queue_manager: str
    user: str
    program: str


class TraceEntryJson(TypedDict):
    """One message on one queue: where it stands there now, or how its life there ended.

    Times are ms since 1970; ``ended_ms`` is null while it is there, ``expire_at_ms`` for a message
    that never expires. Ids are those that its sender knows, empty where unknown. ``reason`` is an
    MQRC_* or MQFB_*, 0 for none. ``report`` are its report options. ``capped_by`` is the CAPEXPRY
    that shortened its life, with its object; ``met_by`` says what met an expired message, and
    ``ended_by`` with ``ended_program`` who ended the life. Each is empty where it is not known.
    """

    relation: str
    state: str
    queue: str
    msg_id: str
    correl_id: str
    put_ms: int
    deliver_at_ms: int
    expire_at_ms: int | None
    ended_ms: int | None
    reason: int
    reason_name: str | None
    target: str
    holder: str
    hindrance: str
    persistent: bool
    body_bytes: int
    report: int
    reply_to_q: str
    backout_count: int
    user_identifier: str
    program: str
    topic: str
    queue_manager: str
    capped_by: str
    met_by: str
    ended_by: str
    ended_program: str


class MessageTraceJson(TypedDict):
    """The knowledge of queue managers about an id, at the moment ``at_ms``.

    ``is_cut`` says that there is more than is told. ``ledger_position`` and ``ledger_ms`` are the
    oldest row that retention has left in the ledger of ``queue_manager``, which was asked; null
    while it is empty. ``notes`` are sentences about what was not looked at.
    """

    id: str
    at_ms: int
    is_known: bool
    sentence: str
    steps: list[StepJson]
    entries: list[TraceEntryJson]
    is_cut: bool
    ledger_position: int | None
    ledger_ms: int | None
    queue_manager: str
    notes: list[str]


class TracesJson(TypedDict):
    """Traces of messages with a property, the latest put first.

    ``is_cut`` says that there are more. ``notes`` are sentences about what was not looked at.
    """

    traces: list[MessageTraceJson]
    is_cut: bool
    notes: list[str]


class ScheduledJson(TypedDict):
    """A delayed message, as its sender knows it; times are ms since 1970.

    ``expire_at_ms`` is null for one that never expires. ``position`` is its place in the order of
    delivery times.
    """

    position: str
    msg_id: str
    correl_id: str
    target: str
    put_ms: int
    deliver_at_ms: int
    expire_at_ms: int | None
    priority: int
    persistent: bool
    body_bytes: int
    user_identifier: str


class AuditJson(TypedDict):
    """A change of the schedule; ``msg_id`` is empty for one by a filter."""

    at_ms: int
    user: str
    action: str
    msg_id: str
    detail: str
    receipt: str
    message_count: int


def trace_as_json(found: MessageTrace) -> MessageTraceJson:
    """Return what is known of a message."""
    return {
        "id": found.asked_id.hex(),
        "at_ms": found.at_ms,
        "is_known": found.is_known,
        "sentence": found.sentence,
        "steps": [cast(StepJson, step._asdict()) for step in found.steps],
        "entries": [_entry_as_json(entry) for entry in found.entries],
        "is_cut": found.is_cut,
        "ledger_position": found.ledger_position,
        "ledger_ms": found.ledger_ms,
        "queue_manager": found.queue_manager,
        "notes": list(found.notes),
    }


def traces_as_json(found: TracesFound) -> TracesJson:
    """Return the traces of messages with a property."""
    return {
        "traces": [trace_as_json(trace) for trace in found.traces],
        "is_cut": found.is_cut,
        "notes": list(found.notes),
    }


def _entry_as_json(entry: TraceEntry) -> TraceEntryJson:
    ids = {"msg_id": entry.msg_id.hex(), "correl_id": entry.correl_id.hex()}
    named = {"reason_name": cause_name(entry.reason) if entry.reason else None}
    return cast(TraceEntryJson, entry._asdict() | ids | named)


def scheduled_as_json(entry: Scheduled) -> ScheduledJson:
    """Return a delayed message.

    The position is text: many readers of JSON round what has more than 53 bits.
    """
    ids = {"msg_id": entry.msg_id.hex(), "correl_id": entry.correl_id.hex()}
    return cast(ScheduledJson, entry._asdict() | ids | {"position": str(entry.position)})


def audit_as_json(entry: AuditEntry) -> AuditJson:
    """Return a change of the schedule."""
    return cast(AuditJson, entry._asdict() | {"msg_id": entry.msg_id.hex()})
