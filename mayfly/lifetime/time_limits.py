"""How long a program may hold messages: the lifetime of a transaction (L11), the lease of a claim.

A pipeline claims due messages to release them, and sends heartbeats while it lives. A claim without
a heartbeat lapses, and its messages are due again (DDELAY).
"""

from __future__ import annotations

from mayfly.lifetime.times import SECOND_MS, ms_of_seconds

#: The total transaction lifetime timeout of an application server, unless it is set otherwise.
TOTAL_TRAN_LIFETIME_TIMEOUT_S = 120
#: A claim lapses after this time without a renewal.
CLAIM_LEASE_MS = 60 * SECOND_MS
#: Interval at which a live reader renews: three renewals may be lost before the claim lapses.
CLAIM_HEARTBEAT_MS = CLAIM_LEASE_MS // 4


def timeout_ms(name: str, seconds: int) -> int:
    """Return a timeout of whole seconds in ms; 0 stays 0, no timeout.

    Raises TypeError for a value that is no int, ValueError for a negative one; both name ``name``.
    """
    if isinstance(seconds, bool) or not isinstance(seconds, int):
        raise TypeError(f"{name} {seconds!r} is no number of seconds")
    if seconds < 0:
        raise ValueError(f"{name} {seconds} is negative")
    return ms_of_seconds(seconds)


def is_timed_out(elapsed_ms: int, lifetime_ms: int) -> bool:
    """Return True from the millisecond at which a lifetime is over.

    A lifetime of 0 never is (L11).
    """
    return 0 < lifetime_ms <= elapsed_ms


def lease_ends_at_ms(heartbeat_ms: int) -> int:
    """Return the moment at which a claim lapses, from that of its last heartbeat (epoch ms)."""
    return heartbeat_ms + CLAIM_LEASE_MS
