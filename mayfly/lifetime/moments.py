"""Whether a moment has come: the two bounds of the window in which a message may be got.

They stand alone because numba takes them as Python (`replay.kernel`, `advise.kernel`).
"""

from __future__ import annotations


def is_expired(expire_at_ms: int | None, now_ms: int) -> bool:
    """Return True if a deadline has been reached: from that very millisecond on (E4, E8)."""
    return expire_at_ms is not None and now_ms >= expire_at_ms


def is_due(deliver_at_ms: int, now_ms: int) -> bool:
    """Return True if a delivery time has come: from that very millisecond on (D1)."""
    return now_ms >= deliver_at_ms
