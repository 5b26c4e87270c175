"""The values of operators' verbs as JSON objects: ids in hexadecimal, reasons by name as well."""

from __future__ import annotations

from typing import Any

from mayfly.connection.values import AuditEntry, Scheduled
from mayfly.engine import Stay, Whereabouts
from mayfly.mqi.causes import cause_name


def whereabouts_as_json(found: Whereabouts) -> dict[str, Any]:
    """Return what is known of a message."""
    return {
        "id": found.asked_id.hex(),
        "at_ms": found.at_ms,
        "is_known": found.is_known,
        "sentence": found.sentence,
        "steps": [step._asdict() for step in found.steps],
        "stays": [_stay_as_json(stay) for stay in found.stays],
        "is_cut": found.is_cut,
        "ledger_position": found.ledger_position,
        "ledger_ms": found.ledger_ms,
    }


def _stay_as_json(stay: Stay) -> dict[str, Any]:
    ids = {"msg_id": stay.msg_id.hex(), "correl_id": stay.correl_id.hex()}
    named = {"reason_name": cause_name(stay.reason) if stay.reason else None}
    return stay._asdict() | ids | named


def scheduled_as_json(entry: Scheduled) -> dict[str, object]:
    """Return a delayed message: the names of ``Scheduled``.

    The position is text: many readers of JSON round what has more than 53 bits.
    """
    ids = {"msg_id": entry.msg_id.hex(), "correl_id": entry.correl_id.hex()}
    return entry._asdict() | ids | {"position": str(entry.position)}


def audit_as_json(entry: AuditEntry) -> dict[str, object]:
    """Return a change of the schedule; ``msg_id`` is empty for one by a filter."""
    return entry._asdict() | {"msg_id": entry.msg_id.hex()}
