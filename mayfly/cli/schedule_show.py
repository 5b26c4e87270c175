"""The output of ``mayfly schedule``: delayed messages, and the audit."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from mayfly.cli.show import moment
from mayfly.lifetime.times import SECOND_MS
from mayfly.verbs.schedule import AuditEntry, Scheduled

_LIST_HEAD = ("MsgId", "due (UTC)", "queue", "sender", "bytes")
_AUDIT_HEAD = ("at (UTC)", "user", "action", "receipt", "count", "what")
#: Moments in an entry of the audit; a number with more digits is beyond the year 5138.
_MOMENT = re.compile(r"(^to |\bdue_from_ms=|\bdue_before_ms=)([0-9]{1,14})(?![0-9])")


def entry_lines(page: Sequence[Scheduled], *, has_head: bool) -> Iterator[str]:
    """Yield a page of entries as lines, aligned; due to the second, ``show`` tells it exactly."""
    rows = [
        (
            entry.msg_id.hex(),
            moment(entry.deliver_at_ms),
            entry.target,
            entry.user_identifier or "-",
            f"{entry.body_bytes:,}",
        )
        for entry in page
    ]
    return _columns([_LIST_HEAD, *rows] if has_head else rows, right=4)


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


def audit_lines(entries: Sequence[AuditEntry]) -> Iterator[str]:
    """Yield what was done as lines, aligned, below a head."""
    rows = [
        (
            moment(entry.at_ms),
            entry.user or "-",
            entry.action,
            entry.receipt,
            f"{entry.message_count:,}",
            f"{entry.msg_id.hex()} {_MOMENT.sub(_spelled, entry.detail)}".strip(),
        )
        for entry in entries
    ]
    return _columns([_AUDIT_HEAD, *rows], right=4)


def _columns(rows: Sequence[Sequence[str]], *, right: int) -> Iterator[str]:
    """Yield rows of cells as lines, to the left but for one column of numbers."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = [
            cell.rjust(width) if index == right else cell.ljust(width)
            for index, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        yield "  ".join(cells).rstrip()


def _spelled(found: re.Match[str]) -> str:
    name = found[1].replace("_ms=", "=")
    return f"{name}{_exactly(int(found[2])).replace(' ', 'T')}Z"


def _exactly(at_ms: int) -> str:
    return f"{moment(at_ms)}.{at_ms % SECOND_MS:03d}"
