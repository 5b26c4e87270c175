"""What ``mayfly schedule`` prints of what waits, and of what was done to it."""

from __future__ import annotations

from mayfly.cli.show import moment
from mayfly.engine.schedule import AuditEntry, Scheduled
from mayfly.lifetime.times import SECOND_MS

LIST_HEAD = f"{'MsgId':<48}  {'due (UTC)':<23}  {'bytes':>7}  {'position':>20}  queue  sender"
AUDIT_HEAD = f"{'at (UTC)':<23}  {'user':<12}  {'action':<10}  {'receipt':<16}  {'count':>9}  what"


def entry_as_json(entry: Scheduled) -> dict[str, object]:
    """Return an entry for JSON: the names of ``Scheduled``, ids in hexadecimal."""
    ids = {"msg_id": entry.msg_id.hex(), "correl_id": entry.correl_id.hex()}
    return entry._asdict() | ids


def entry_line(entry: Scheduled) -> str:
    """Return an entry as one line."""
    line = (
        f"{entry.msg_id.hex()}  {_exactly(entry.deliver_at_ms)}  {entry.body_bytes:>7}  "
        f"{entry.position:>20}  {entry.target}  {entry.user_identifier}"
    )
    return line.rstrip()


def details(entry: Scheduled) -> dict[str, object]:
    """Return all there is to say of an entry, by label."""
    expire_at_ms = entry.expire_at_ms
    return {
        "MsgId": entry.msg_id.hex(),
        "CorrelId": entry.correl_id.hex(),
        "queue": entry.target,
        "put (UTC)": _exactly(entry.put_ms),
        "due (UTC)": _exactly(entry.deliver_at_ms),
        "expires (UTC)": "never" if expire_at_ms is None else _exactly(expire_at_ms),
        "priority": entry.priority,
        "persistent": "yes" if entry.persistent else "no",
        "bytes": entry.body_bytes,
        "sender": entry.user_identifier or "-",
        "position": entry.position,
    }


def audit_as_json(entry: AuditEntry) -> dict[str, object]:
    """Return what was done for JSON; ``msg_id`` is empty for a bulk operation."""
    return entry._asdict() | {"msg_id": entry.msg_id.hex()}


def audit_line(entry: AuditEntry) -> str:
    """Return what was done as one line."""
    what = f"{entry.msg_id.hex()} {entry.detail}".strip()
    line = (
        f"{_exactly(entry.at_ms)}  {entry.user or '-':<12}  {entry.action:<10}  "
        f"{entry.receipt:<16}  {entry.message_count:>9,}  {what}"
    )
    return line.rstrip()


def _exactly(at_ms: int) -> str:
    return f"{moment(at_ms)}.{at_ms % SECOND_MS:03d}"
