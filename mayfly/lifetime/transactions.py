"""The longest life of a transaction: one rule for listeners, sessions of JMS and the advisor."""

from __future__ import annotations

from mayfly.lifetime.times import ms_of_seconds

#: The total transaction lifetime timeout of an application server, unless it is set otherwise.
TOTAL_TRAN_LIFETIME_TIMEOUT_S = 120


def timeout_ms(name: str, seconds: int) -> int:
    """Return a timeout in ms, 0 for none; raises ValueError or TypeError with its name."""
    if isinstance(seconds, bool) or not isinstance(seconds, int):
        raise TypeError(f"{name} {seconds!r} is no number of seconds")
    if seconds < 0:
        raise ValueError(f"{name} {seconds} is negative")
    return ms_of_seconds(seconds)


def is_timed_out(elapsed_ms: int, lifetime_ms: int) -> bool:
    """Return True from the very millisecond at which a lifetime is over; 0 is no limit (L11)."""
    return 0 < lifetime_ms <= elapsed_ms
