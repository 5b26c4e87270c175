"""Moments: whether a message is expired or due now, and the ends of transactions and claims."""

from __future__ import annotations

from mayfly.lifetime.times import SECOND_MS, ms_of_seconds


def is_expired(expire_at_ms: int | None, now_ms: int) -> bool:
    """Return True from the millisecond ``expire_at_ms`` on; None never expires (E4, E8)."""
    return expire_at_ms is not None and now_ms >= expire_at_ms


def is_due(deliver_at_ms: int, now_ms: int) -> bool:
    """Return True from the millisecond of the delivery time on (D1)."""
    return now_ms >= deliver_at_ms


class Until(int):
    """A delivery time in epoch ms, passed in place of a delay; a past one is a delay of 1 ms."""


# Redelivery: when a message that was backed out to a queue with BODELAY can be got again
#
# The delay runs from the backout. It doubles with each backout of the message, up to a longest one.


#: A longer shift only makes a number that the longest delay replaces.
_MOST_DOUBLINGS = 30


def redelivery_delay_ms(delay_s: int, longest_s: int, backout_count: int) -> int:
    """Return the delay in ms before a backed-out message is handed out again (D32); 0 is none.

    ``delay_s`` is BODELAY of its queue, ``longest_s`` BODELMAX, both in seconds; ``backout_count``
    is how often the message was backed out, this time included. The first delay is ``delay_s``,
    each further one is twice as long, and none is above ``longest_s``. A ``longest_s`` below
    ``delay_s`` makes all delays equal to ``delay_s``.
    """
    doublings = min(max(backout_count - 1, 0), _MOST_DOUBLINGS)
    return ms_of_seconds(min(delay_s << doublings, max(delay_s, longest_s)))


def redelivery_ms(redeliver_at_ms: int, expire_at_ms: int | None) -> int:
    """Return when a delayed redelivery ends, in epoch ms: at its time, or at an earlier deadline.

    A message whose deadline comes first is discarded then, with its report (E13).
    """
    return redeliver_at_ms if expire_at_ms is None else min(redeliver_at_ms, expire_at_ms)


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
