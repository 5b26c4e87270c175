"""Results of operators' verbs as JSON objects: ids in hexadecimal, reason codes with names.

Each type here has the fields of the value that it is made of; that value describes them.
"""

from __future__ import annotations

from typing import TypedDict, cast

from mayfly.mqi.reasons import cause_name
from mayfly.verbs.facts import MessageTrace, TraceEntry, TracesFound
from mayfly.verbs.schedule import AuditEntry, Scheduled


class StepJson(TypedDict):
    """One event or state of a message; ``at_ms`` is in ms since 1970, UTC.

    ``user`` and ``program`` caused it; they are empty when not known.
    """

    at_ms: int
    what: str
    queue: str
    text: str
    queue_manager: str
    user: str
    program: str


class TraceEntryJson(TypedDict):
    """One message on one queue: its state there now, or how it ended there.

    Times are in ms since 1970, UTC. ``ended_ms`` is null while the message is there,
    ``expire_at_ms`` for one that never expires. Ids are those that the sender knows, empty where
    unknown. ``reason`` is an MQRC_* or MQFB_* code, 0 for none; ``report`` has the report options.
    ``capped_by`` names the CAPEXPRY, with its object, that shortened the time to live.
    ``detected_by`` names what detected an expired message; ``ended_by`` and ``ended_program``
    removed the message. Each is empty when it is not known.
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
    detected_by: str
    ended_by: str
    ended_program: str


class MessageTraceJson(TypedDict):
    """The facts that queue managers know about a message id at the moment ``at_ms``.

    ``is_cut`` is true if more was found than is listed. ``ledger_position`` and ``ledger_ms`` are
    those of the oldest row left in the ledger of ``queue_manager``, which was asked; null while
    that ledger is empty. ``notes`` are sentences about what was not searched.
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
    """Traces of messages that have a property, the latest put first.

    ``is_cut`` is true if there are more. ``notes`` are sentences about what was not searched.
    """

    traces: list[MessageTraceJson]
    is_cut: bool
    notes: list[str]


class ScheduledJson(TypedDict):
    """A delayed message as its sender knows it; times are in ms since 1970, UTC.

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
    """A change of the schedule; ``msg_id`` is empty for a change by a filter."""

    at_ms: int
    user: str
    action: str
    msg_id: str
    detail: str
    receipt: str
    message_count: int


def trace_as_json(found: MessageTrace) -> MessageTraceJson:
    """Return a message trace as a JSON object, with ids in hexadecimal."""
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
    """Return the traces of messages with a property as a JSON object, ids in hexadecimal."""
    return {
        "traces": [trace_as_json(trace) for trace in found.traces],
        "is_cut": found.is_cut,
        "notes": list(found.notes),
    }


def _entry_as_json(entry: TraceEntry) -> TraceEntryJson:
    """Return one entry of a trace as a JSON object, with ids in hexadecimal.

    ``reason_name`` is None for reason 0.
    """
    ids = {"msg_id": entry.msg_id.hex(), "correl_id": entry.correl_id.hex()}
    named = {"reason_name": cause_name(entry.reason) if entry.reason else None}
    return cast(TraceEntryJson, entry._asdict() | ids | named)


def scheduled_as_json(entry: Scheduled) -> ScheduledJson:
    """Return a delayed message as a JSON object, with ids in hexadecimal.

    The position is a string: many JSON readers round numbers of more than 53 bits.
    """
    ids = {"msg_id": entry.msg_id.hex(), "correl_id": entry.correl_id.hex()}
    return cast(ScheduledJson, entry._asdict() | ids | {"position": str(entry.position)})


def audit_as_json(entry: AuditEntry) -> AuditJson:
    """Return a change of the schedule as a JSON object, with its MsgId in hexadecimal."""
    return cast(AuditJson, entry._asdict() | {"msg_id": entry.msg_id.hex()})
