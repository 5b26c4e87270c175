"""Whether a moment has come, and a delay that is given by the moment of its end.

They are not in `window`, which is compiled: numba takes the functions as Python (`replay.kernel`,
`advise.kernel`), and a compiled module has no class of integers.
"""

from __future__ import annotations


def is_expired(expire_at_ms: int | None, now_ms: int) -> bool:
    """Return True if a deadline has been reached: from that very millisecond on (E4, E8)."""
    return expire_at_ms is not None and now_ms >= expire_at_ms


def is_due(deliver_at_ms: int, now_ms: int) -> bool:
    """Return True if a delivery time has come: from that very millisecond on (D1)."""
    return now_ms >= deliver_at_ms


class Until(int):
    """A delay until a moment, whose value is in epoch ms; one that is past at the put is 1 ms."""
