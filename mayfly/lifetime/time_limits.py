"""Time limits: transactions (L11), claims of pipelines, and delays of messages in memory (D33).

A claim is a set of due messages that a pipeline has reserved to release them. The pipeline renews
it by heartbeats. Without a heartbeat the claim lapses, and its messages are due again (DDELAY).
"""

from __future__ import annotations

from mayfly.lifetime.times import SECOND_MS, ms_of_seconds

#: The total transaction lifetime timeout of an application server, unless it is set otherwise.
TOTAL_TRAN_LIFETIME_TIMEOUT_S = 120
#: A claim lapses after this time without a renewal.
CLAIM_LEASE_MS = 60 * SECOND_MS
#: Interval at which a live reader renews: three renewals may be lost before the claim lapses.
CLAIM_HEARTBEAT_MS = CLAIM_LEASE_MS // 4

#: A message that is not persistent is safe in a longer delay only as long as nothing restarts.
LONGEST_UNSAFE_DELAY_MS = 60 * SECOND_MS


def timeout_ms(name: str, seconds: int) -> int:
    """Return a timeout of whole seconds in ms; 0 means no timeout and stays 0.

    Raises TypeError for a value that is no int, ValueError for a negative one. ``name`` names the
    parameter in their texts.
    """
    if isinstance(seconds, bool) or not isinstance(seconds, int):
        raise TypeError(f"{name} {seconds!r} is no number of seconds")
    if seconds < 0:
        raise ValueError(f"{name} {seconds} is negative")
    return ms_of_seconds(seconds)


def is_timed_out(elapsed_ms: int, lifetime_ms: int) -> bool:
    """Return True if ``elapsed_ms`` has reached ``lifetime_ms``; 0 means no timeout (L11)."""
    return 0 < lifetime_ms <= elapsed_ms


def lease_ends_at_ms(heartbeat_ms: int) -> int:
    """Return when a pipeline's claim (reserved messages) ends: 60 s after its last heartbeat.

    Both times are epoch ms. The messages then go back to their queue.
    """
    return heartbeat_ms + CLAIM_LEASE_MS


def is_unsafe_delay(delay_ms: int, *, persistent: bool) -> bool:
    """Return True for a delay above one minute of a message that a restart would lose (D33)."""
    return not persistent and delay_ms > LONGEST_UNSAFE_DELAY_MS
