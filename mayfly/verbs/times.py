"""Times that a program passes to a verb: whole ms, a timedelta, or the moment as a datetime."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TypeAlias

from mayfly.lifetime.moments import Until
from mayfly.lifetime.times import ms_of_duration, ms_of_moment
from mayfly.lifetime.window import check_life_ms

#: A duration: ms or a timedelta. A part of a millisecond counts as a whole one.
Duration: TypeAlias = int | timedelta
#: A time to live: a duration, None for ever.
Life: TypeAlias = Duration | None
#: A delivery delay: a duration, or the moment of delivery as a datetime with a time zone.
Delay: TypeAlias = Duration | datetime
#: A moment: ms since 1970, UTC, or a datetime with a time zone.
Moment: TypeAlias = int | datetime


def times_of_put(life: Life, delay: Delay) -> tuple[int | None, int]:
    """Return time to live and delay of a put in ms; the delay is an ``Until`` for a datetime.

    Raises MQRC_EXPIRY_ERROR for a wrong time to live, and ValueError for a datetime without a time
    zone. A wrong delay is returned unchanged: the put refuses it.
    """
    life_ms = ms_of_duration(life)
    check_life_ms(life_ms)
    if isinstance(delay, datetime):
        # A delay of 0 is none, so the first moment of 1970 is the second one.
        return life_ms, Until(ms_of_moment(delay, "delay_ms") or 1)
    return life_ms, ms_of_duration(delay)


def delay_from(now_ms: int, until_ms: int) -> int:
    """Return the delay in ms that ends at ``until_ms``, at least 1; both are epoch ms."""
    return max(until_ms - now_ms, 1)
