"""Moments: whether a message is expired or due now, and a delay set by its end.

They are not in `window`, which is compiled: numba takes the functions as Python (`replay.kernel`,
`advise.simulate`), and a compiled module cannot have a subclass of int.
"""

from __future__ import annotations

from mayfly.lifetime.times import ms_of_seconds


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
