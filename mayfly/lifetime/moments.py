"""Moments: whether a message is expired or due now, and a delay set by its end.

They are not in `window`, which is compiled: numba takes the functions as Python (`replay.kernel`,
`advise.simulate`), and a compiled module cannot have a subclass of int.
"""

from __future__ import annotations


def is_expired(expire_at_ms: int | None, now_ms: int) -> bool:
    """Return True from the millisecond ``expire_at_ms`` on; None never expires (E4, E8)."""
    return expire_at_ms is not None and now_ms >= expire_at_ms


def is_due(deliver_at_ms: int, now_ms: int) -> bool:
    """Return True from the millisecond of the delivery time on (D1)."""
    return now_ms >= deliver_at_ms


class Until(int):
    """A delivery time in epoch ms, passed in place of a delay; a past one is a delay of 1 ms."""
