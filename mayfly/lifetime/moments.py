"""The two comparisons of a moment with the present time, and a delay given by its end.

They are not in `window`, which is compiled: numba takes the functions as Python (`replay.kernel`,
`advise.kernel`), and a compiled module cannot have a subclass of int.
"""

from __future__ import annotations


def is_expired(expire_at_ms: int | None, now_ms: int) -> bool:
    """Return True from the millisecond of the deadline on, itself included; None never (E4, E8)."""
    return expire_at_ms is not None and now_ms >= expire_at_ms


def is_due(deliver_at_ms: int, now_ms: int) -> bool:
    """Return True from the millisecond of the delivery time on, itself included (D1)."""
    return now_ms >= deliver_at_ms


class Until(int):
    """A delay given by its end in epoch ms; an end that is past at the put is a delay of 1 ms."""
